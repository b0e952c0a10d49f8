"""The grid: paired draws, forks that do not see each other, values equal to a full forward for every cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cachemedicpp.cache.state import KVState
from cachemedicpp.corruption import sequence_keys
from cachemedicpp.corruption.contiguous_overwrite import ContiguousOverwrite
from cachemedicpp.eval.grid import (
    CLEAN,
    Cell,
    corrupt_forks,
    evaluate_example,
    family_for,
    grid_cells,
    prefill,
)
from cachemedicpp.repair.defences import Defence, Forks, heuristic_defences

TYPES = ["gaussian", "dropout_zero", "orthogonal_rotation", "bitflipish_sparse", "quant_noise"]


def test_cells_are_clean_once_and_every_type_at_every_epsilon() -> None:
    cells = grid_cells(["a", "b"], [0.0, 0.1, 0.2])
    assert cells == [CLEAN, Cell("a", 0.1), Cell("a", 0.2), Cell("b", 0.1), Cell("b", 0.2)]


def test_every_defence_gets_the_same_corrupted_cache(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    seen: dict[str, list[torch.Tensor]] = {}

    class Spy(Defence):
        def mend(self, model: Any, cache: Any, forks: Forks) -> None:
            state = KVState(cache)
            seen.setdefault(self.name, []).append(torch.stack([state[1].K, state[2].V]))

    spies = [Spy("first"), *heuristic_defences(setup.layers, oracle=True), Spy("last")]
    evaluate_example(tiny_llama, setup.family, task, task.examples[0], setup.cells, spies, 5)
    assert len(seen["first"]) > 1
    for first, last in zip(seen["first"], seen["last"], strict=True):
        assert torch.equal(first, last)


def test_values_do_not_depend_on_how_many_forks_share_a_batch(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    setup = small_setup()
    defences = [Defence(), *heuristic_defences(setup.layers, oracle=False)]
    for task in setup.tasks:
        alone, *others = (
            evaluate_example(tiny_llama, setup.family, task, task.examples[0], setup.cells, defences, size)
            for size in (1, 13, 4 * len(setup.cells))  # the last: several defences in a batch
        )
        for together in others:
            for name, scores in alone["scores"].items():
                for one, other in zip(scores, together["scores"][name], strict=True):
                    assert one["value"] == pytest.approx(other["value"], rel=1e-4, abs=1e-5)
            assert alone["events"] == together["events"]


def test_a_cell_of_several_draws_has_their_mean(small_setup: Callable[..., Any], tiny_llama: Any) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    cells = [CLEAN, Cell("gaussian", 0.5), Cell("dropout_zero", 0.5)]
    given = (tiny_llama, setup.family, task, task.examples[0])
    merged = evaluate_example(*given, cells, [Defence()], 4, draws=3)["scores"]["none"]
    each = [Cell(cell.type, cell.epsilon, draw) for cell in cells[1:] for draw in range(3)]
    single = [s["value"] for s in evaluate_example(*given, [CLEAN, *each], [Defence()], 7)["scores"]["none"]]
    assert len(set(single[1:4])) == 3, "draws differ"
    wanted = [single[0], sum(single[1:4]) / 3, sum(single[4:7]) / 3]
    assert [score["value"] for score in merged] == pytest.approx(wanted, rel=1e-4)


def test_each_value_equals_a_prefill_and_a_scoring_of_its_own(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    """The naive way: nothing shared between cells."""
    setup = small_setup()
    task = setup.tasks[0]
    example = task.examples[1]
    smoothing = next(d for d in heuristic_defences(setup.layers, oracle=False) if d.name == "smoothing")
    found = evaluate_example(tiny_llama, setup.family, task, example, setup.cells, [smoothing], 4)
    for cell, score in zip(setup.cells, found["scores"]["smoothing"], strict=True):
        ids = torch.tensor([example.stored])
        with torch.no_grad():
            cache = tiny_llama(ids, use_cache=True).past_key_values
            if cell.epsilon > 0:
                family = family_for(setup.family, task, example)
                family.at(cell.type, cell.epsilon).corrupt_cache(cache, [example.key])
            smoothing.repair.repair_cache(cache)
            logits = (
                tiny_llama(torch.tensor([example.query]), past_key_values=cache).logits[0].log_softmax(-1)
            )
        naive = float(logits.gather(-1, torch.tensor(example.target)[:, None]).sum())
        assert score["value"] == pytest.approx(naive, rel=1e-3)


def test_the_clean_prefix_is_untouched_by_its_forks(small_setup: Callable[..., Any], tiny_llama: Any) -> None:
    setup = small_setup()
    example = setup.tasks[0].examples[0]
    clean = prefill(tiny_llama, example.stored)
    before = [(K.clone(), V.clone()) for K, V in clean]
    corrupted, forks = corrupt_forks(clean, setup.family, example, setup.cells)
    with torch.no_grad():
        setup.tasks[0].score(tiny_llama, example, corrupted.cache(), len(setup.cells))
    for (K, V), (K0, V0) in zip(clean, before, strict=True):
        assert torch.equal(K, K0)
        assert torch.equal(V, V0)
    assert torch.equal(corrupted[1].K[0], clean[1].K[0]), "the first fork is the clean one"
    assert forks.plans[0] is None


def window(positions: int, focus: int | None = None) -> tuple[int, int]:
    """The default window, `(16, 48)`, fitted."""
    return ContiguousOverwrite().fitted(positions, focus).overwrite_window


def test_the_overwrite_window_is_fitted_to_short_prompts() -> None:
    assert window(60) == (16, 48)
    assert window(20) == (5, 20)
    assert window(1) == (0, 1)


def test_the_overwrite_window_begins_at_what_a_task_asks_for(small_setup: Callable[..., Any]) -> None:
    assert window(200, 90) == (90, 122)
    assert window(100, 90) == (90, 100)
    assert window(80, 90) == (16, 48)  # what is asked for is recent: out of reach
    setup = small_setup()
    needle = next(task for task in setup.tasks if task.name == "needle")
    example = needle.examples[0]
    plan = (
        family_for(setup.family, needle, example)
        .at("contiguous_overwrite", 1.0)
        .plan(["k"], len(example.stored))
    )
    touched = plan.mask(1)[0, 0].nonzero().flatten()
    statement = bytes(example.stored[int(touched[0]) : int(touched[0]) + 30]).decode("latin-1")
    assert statement.strip().startswith("NEEDLE: the_key = violet-7.")


def test_a_defence_that_throws_away_what_damage_can_reach_scores_the_same_in_every_cell(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    """Scored once and repeated; the same as scoring each damaged fork."""
    setup = small_setup()
    axes = setup.tasks[0].axes
    for task in setup.tasks[:2]:
        example = task.examples[0]
        for defence in heuristic_defences(setup.layers, oracle=False, axes=axes):
            if not defence.discards:
                continue
            found = evaluate_example(tiny_llama, setup.family, task, example, setup.cells, [defence], 13)
            scores = [score["value"] for score in found["scores"][defence.name]]
            assert len(set(scores)) == 1 and len(scores) == len(setup.cells)
            family = family_for(setup.family, task, example)
            state, forks = corrupt_forks(
                prefill(tiny_llama, example.stored), family, example, setup.cells[1:4]
            )
            cache, here = state.cache(), defence.under(task.axes)
            with torch.no_grad():
                here.mend(tiny_llama, cache, forks)
                with here.attached(tiny_llama, forks):
                    each = [score.value for score in task.score(tiny_llama, example, cache, 3)]
            assert each == pytest.approx(scores[:3], abs=1e-4), defence.name


def test_oracle_heuristics_are_told_exactly_the_damaged_places(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    example = task.examples[0]
    clean = prefill(tiny_llama, example.stored)
    family = family_for(setup.family, task, example)
    corrupted, forks = corrupt_forks(clean, family, example, [CLEAN, Cell("gaussian", 0.5)])
    told = forks.suspects(setup.layers)
    for layer in setup.layers:
        changed = (corrupted[layer].K != clean[layer].K).any(-1)  # [F, H, T]
        assert torch.equal(told[layer], changed)


def test_an_oracle_is_told_what_a_type_chose_inside_the_region_it_may_touch(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    example = task.examples[0]
    family = family_for(setup.family, task, example)
    clean = prefill(tiny_llama, example.stored)
    _, forks = corrupt_forks(clean, family, example, [Cell("orthogonal_rotation", 0.2)])
    told = torch.stack(list(forks.suspects(setup.layers).values()))
    region = torch.stack([forks.plans[0].mask(layer) for layer in setup.layers])
    assert not told[~region].any()
    # keys and values draw apart: a vector of either is turned with probability 1 - (1 - 0.2)²
    assert float(told[region].float().mean()) == pytest.approx(0.36, abs=0.08)


def test_keys_of_examples_differ_so_that_their_corruption_does(small_setup: Callable[..., Any]) -> None:
    setup = small_setup()
    keys = [example.key for task in setup.tasks for example in task.examples]
    assert len(set(keys)) == len(keys)
    assert sequence_keys(torch.tensor([[1, 2]])) != sequence_keys(torch.tensor([[1, 3]]))
