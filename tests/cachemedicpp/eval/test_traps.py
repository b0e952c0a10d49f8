"""Each trap that the published reference fell into, as a test that would catch it here."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cachemedicpp.cache.state import Geometry, KVState
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.eval.grid import corrupt_forks, evaluate_example, family_for, grid_cells, prefill
from cachemedicpp.eval.robustness import Robustness, TaskScores, pick_heuristic
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.defences import Defence, heuristic_defences
from cachemedicpp.repair.operators import build_operator
from cachemedicpp.runs.defences import run_defences
from cachemedicpp.runs.pipeline import figures
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.wikitext2 import Wikitext2Task
from homeostat.core.errors import UserError

TYPES = MedicConfig().eval.corruption_eval.types


def _every_repair(model: Any, layers: tuple[int, ...]) -> list[Defence]:
    """All heuristics, and an operator of each family with random parameters: the worst it may do."""
    found = list(heuristic_defences(layers, oracle=False))
    geometry = Geometry.of(model)
    for family in ("A", "B", "C"):
        config = RepairConfig(family=family, protect_layers=layers, rank=4)
        operator = build_operator(config, geometry, 0)
        with torch.no_grad():
            for place, parameter in enumerate(operator.parameters()):
                noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(place))
                parameter.add_(0.3 * noise)
        found.append(Defence(family, repair=operator.eval()))
    return found


@pytest.mark.parametrize("kind", TYPES)
def test_epsilon_moves_every_corruption_type(small_setup: Callable[..., Any], kind: str) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    example = task.examples[0]
    clean = prefill(setup.model, example.stored)
    family = family_for(setup.family, task, example)
    cells = grid_cells([kind], [0.0, 0.1, 0.4, 0.9])
    state, _ = corrupt_forks(clean, family, example, cells)
    distance = [float((state[1].K[row] - clean[1].K[0]).norm()) for row in range(len(cells))]
    assert distance[0] == 0.0, "epsilon 0 is exactly the identity"
    assert distance[0] < distance[1] < distance[2] < distance[3]


def test_old_only_on_prompts_no_longer_than_n_recent_is_refused(small_setup: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"task sst2.*N_recent = 500"):
        small_setup(data__sst2__n_recent=500)
    with pytest.raises(UserError, match=r"task wikitext2.*N_recent = 64"):
        small_setup(corruption__axes__N_recent=64, stability__prompt_len=100)


def test_a_later_token_never_changes_an_earlier_logit_with_any_repair_attached(
    small_setup: Callable[..., Any],
) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    example = task.examples[0]
    family = family_for(setup.family, task, example)
    clean = prefill(setup.model, example.stored)
    state, forks = corrupt_forks(clean, family, example, grid_cells(["gaussian"], [0.5]))
    query = torch.tensor([example.query, example.query])
    other = query.clone()
    other[:, -1] = (other[:, -1] + 7) % 250 + 3
    for defence in _every_repair(setup.model, setup.layers):
        logits = []
        for ids in (query, other):
            with torch.no_grad():
                cache = state.cache()
                defence.mend(setup.model, cache, forks)
                with defence.attached(setup.model):
                    logits.append(setup.model(ids, past_key_values=cache, use_cache=True).logits)
        assert torch.allclose(logits[0][:, :-1], logits[1][:, :-1], atol=1e-5), defence.name
        assert not torch.allclose(logits[0][:, -1], logits[1][:, -1], atol=1e-3), (
            "the change does reach the end"
        )


def test_corruption_is_of_the_stored_cache_and_never_of_the_prefill(small_setup: Callable[..., Any]) -> None:
    """Layers above a damaged one hold what a clean prefill wrote."""
    setup = small_setup(repair__protect_layers=[0])
    task = setup.tasks[0]
    example = task.examples[0]
    clean = prefill(setup.model, example.stored)
    family = family_for(setup.family, task, example)
    state, _ = corrupt_forks(clean, family, example, grid_cells(["dropout_zero"], [0.5]))
    assert not torch.equal(state[0].K[1], clean[0].K[0])
    for layer in (1, 2):
        assert torch.equal(state[layer].K[1], clean[layer].K[0])


def test_comparisons_are_paired_the_draw_does_not_depend_on_which_defences_run(
    small_setup: Callable[..., Any],
) -> None:
    setup = small_setup()
    task = setup.tasks[0]
    few = [Defence()]
    many = [*heuristic_defences(setup.layers, oracle=True), Defence()]
    a, b = (
        evaluate_example(setup.model, setup.family, task, task.examples[0], setup.cells, defences, 13)
        for defences in (few, many)
    )
    assert a["scores"]["none"] == b["scores"]["none"]
    assert a["events"] == b["events"]


def test_heuristics_are_blind_unless_labelled_oracle(small_setup: Callable[..., Any]) -> None:
    setup = small_setup()
    for defence in heuristic_defences(setup.layers, oracle=True):
        assert (defence.knowledge == "oracle") == defence.name.endswith(":oracle")
    example = setup.tasks[0].examples[0]
    clean = prefill(setup.model, example.stored)
    blind = next(d for d in heuristic_defences(setup.layers, oracle=False) if d.name == "reset_clear")
    cache = clean.cache()
    _, forks = corrupt_forks(clean, setup.family, example, grid_cells([], []))
    blind.mend(setup.model, cache, forks)
    assert float(KVState(cache)[1].K.abs().max()) == 0.0, "without a mask it clears everything"


def test_the_best_heuristic_is_never_picked_on_the_examples_it_is_reported_on() -> None:
    """Heuristic `x` wins on even examples and `y` on odd ones: cross-fitting reports the loser of each."""
    cells = grid_cells(["gaussian"], [0.5])
    even = np.array([1.0, 0.0, 1.0, 0.0])
    x, y = np.stack([even, even], axis=1), np.stack([1 - even, 1 - even], axis=1)
    task = TaskScores("sst2", "accuracy", {"none": x, "x": x, "y": y}, np.ones((4, 2)))
    found = Robustness.build([task], cells, 10, 0)
    tasks, record = pick_heuristic(found, ["x", "y"])
    assert record["chosen_on_even"] == "x"
    assert record["chosen_on_odd"] == "y"
    assert tasks[0].values["best_heuristic"].tolist() == [[0.0, 0.0]] * 4
    assert "even" in record["rule"]


def test_a_run_without_its_operator_is_refused_not_evaluated_at_random(
    small_setup: Callable[..., Any], tmp_path: Path
) -> None:
    setup = small_setup(eval__families=["A"], eval__defences=["A"])
    with pytest.raises(UserError, match="holds no repair"):
        run_defences(setup, tmp_path)


def test_plots_without_metrics_are_refused_and_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task_metrics\.json does not exist"):
        figures(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_data_file_is_an_error_not_a_fallback(
    tmp_path: Path, small_setup: Callable[..., Any]
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("{\n")
    with pytest.raises(UserError, match="line 1"):
        small_setup(data__use_offline=False, data__sst2={"path": str(path), "num_examples": 2})


@pytest.mark.model
@pytest.mark.timeout(900)
def test_damage_grows_with_epsilon_for_every_type_on_the_default_model(
    default_model: tuple[Any, Any], small_config: Callable[..., Any]
) -> None:
    """Mean log-likelihood falls from epsilon to epsilon, within the noise of a handful of windows."""
    model, tokenizer = default_model
    config = small_config(
        data__wikitext2={"num_sequences": 4, "score_len": 12},
        eval__max_seq_len=80,
        corruption__axes={"head_mode": "all", "N_recent": 8},
    )
    layers = tuple(range(30))
    family = CorruptionFamily.build(config.corruption, model, tokenizer, layers, 0)
    task = Wikitext2Task.build(config, model, tokenizer)
    eps = [0.05, 0.2, 0.8]
    cells = grid_cells(TYPES, eps)
    values = np.array(
        [
            [
                s["value"] / s["count"]
                for s in evaluate_example(model, family, task, e, cells, [Defence()], 19)["scores"]["none"]
            ]
            for e in task.examples
        ]
    )
    clean = values[:, 0]
    for place, kind in enumerate(TYPES):
        own = values[:, 1 + place * 3 : 4 + place * 3]
        lost = clean[:, None] - own
        spread = 2 * lost.std(axis=0) / math.sqrt(len(lost)) + 0.02
        means = lost.mean(axis=0)
        assert means[0] > -spread[0], kind
        assert means[1] > means[0] - spread[1], kind
        assert means[2] > means[1] - spread[2], kind
        assert means[2] > 0.0, f"{kind} does no damage at epsilon {eps[-1]}"
