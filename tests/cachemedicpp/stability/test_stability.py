"""Stability metrics: a linear toy worked out by hand, measured drift at delta 0, growth, batching."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from cachemedicpp.cache.state import KVState
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.defences import Defence, heuristic_defences
from cachemedicpp.stability.measures import (
    EPS0,
    Clean,
    Perturbation,
    Prompt,
    Reader,
    along_norms,
    per_head,
    perturbed,
    relative_norm,
)
from cachemedicpp.stability.stage import measure_prompt
from homeostat.core.errors import UserError


def _toy(rows: int = 1) -> KVState:
    """One layer, one head, two positions, d = 2: K and V together are 8 numbers, all 2, so their RMS is 2."""
    cache = DynamicCache()
    cache.update(torch.full((rows, 1, 2, 2), 2.0), torch.full((rows, 1, 2, 2), 2.0), 0)
    return KVState(cache)


def _linear(gain: float) -> Callable[[KVState], torch.Tensor]:
    """z = gain times all numbers of the state, flattened: drift is gain times the norm of delta, exactly."""

    def read(state: KVState) -> torch.Tensor:
        K, V = state[0]
        return gain * torch.cat([K.flatten(1), V.flatten(1)], dim=1)

    return read


def _drifts(
    clean: KVState,
    deltas: list[Perturbation],
    read: Reader,
    reference: Reader,
    topk: int | None = None,
    batch: int = 4,
) -> list[float]:
    return Clean.read(clean, reference, topk, batch).drifts(deltas, [read])[0][0]


def test_directions_have_norm_one_in_each_layer_over_keys_and_values_together() -> None:
    clean = _toy()
    for i in range(5):
        unit = Perturbation((0,), None, 2, 1.0, Stream((i,))).unit(0, clean[0])
        assert float(unit.K.square().sum() + unit.V.square().sum()) == pytest.approx(1.0)


def test_directions_are_zero_outside_the_time_mask_and_other_heads(tiny_llama: Any) -> None:
    clean = Prompt.run(tiny_llama, "x", range(5, 25)).clean
    for x in Perturbation((1,), (1,), 12, 1.0, Stream((0,))).unit(1, clean[1]):
        assert float(x[:, 12:].abs().max()) == 0.0
        assert float(x[0].abs().max()) == 0.0
        assert float(x[1, :12].abs().max()) > 0.0


def test_every_norm_has_directions_of_its_own() -> None:
    clean = _toy()
    deltas = along_norms([0.0, 0.5, 1.0], 2, [0], 2, Stream((0,)))
    assert [d.norm for d in deltas] == [0.0, 0.5, 0.5, 1.0, 1.0]
    units = [d.unit(0, clean[0]).K for d in deltas[1:]]
    assert not any(torch.allclose(a, b) for a, b in combinations(units, 2))


def test_on_a_linear_toy_sensitivity_is_gain_times_norm_times_rms() -> None:
    """By hand: ||delta||_F = norm * 1 * rms = norm * 2; z moves by gain * that."""
    deltas = along_norms([0.0, 0.5, 2.0], 3, [0], 2, Stream((1,)))
    found = _drifts(_toy(), deltas, _linear(3.0), _linear(3.0))
    expected = [0.0, *[3.0 * 0.5 * 2.0] * 3, *[3.0 * 2.0 * 2.0] * 3]
    assert found[0] == 0.0
    assert found == pytest.approx(expected, rel=1e-5)


def test_on_a_linear_toy_amplification_is_the_gain() -> None:
    clean = _toy()
    deltas = per_head(1.0, 4, [0], [0], 2, Stream((2,)))
    found = _drifts(clean, deltas, _linear(3.0), _linear(3.0))
    ratios = [v / (d.size(clean) + EPS0) for d, v in zip(deltas, found, strict=True)]
    assert ratios == pytest.approx([3.0 * 2.0 / (2.0 + EPS0)] * 4, rel=1e-5)


def test_only_the_top_k_logits_of_the_clean_output_count() -> None:
    """z_clean = (0, 10, 20): with k = 1 only the last logit counts."""
    clean = _toy()
    delta = Perturbation((0,), None, 2, 1.0, Stream((3,)))
    weights = torch.tensor([0.0, 10.0, 20.0])

    def read(state: KVState) -> torch.Tensor:
        return weights * state[0].V.flatten(1)[:, :3] / 2.0

    moved = float(delta.delta(0, clean).V.flatten()[2])
    assert _drifts(clean, [delta], read, read, topk=1) == pytest.approx([abs(10.0 * moved)], rel=1e-5)


def test_relative_norm_by_hand() -> None:
    """||delta|| = 0.5 * 2 = 1 and ||S|| = sqrt(8 * 4): one over sqrt(32)."""
    assert relative_norm(_toy(), [0], 0.5) == pytest.approx(1 / math.sqrt(32))


def test_perturbed_changes_only_the_chosen_layers_and_rows(tiny_llama: Any) -> None:
    clean = Prompt.run(tiny_llama, "x", range(5, 25)).clean
    deltas = [Perturbation((1,), None, 12, 1.0, Stream((0,))), None]
    state, _ = perturbed(clean, deltas)
    assert torch.equal(state[0].K, clean[0].K.expand(2, -1, -1, -1))
    assert not torch.equal(state[1].K[:1], clean[1].K)
    assert torch.equal(state[1].K[1:], clean[1].K)


def test_the_cosine_shows_that_bfloat16_swallows_small_perturbations(tiny_llama: Any) -> None:
    """A bfloat16 number has 8 bits: a change below 1/512 of it is rounded away, a large one is kept."""
    exact = Prompt.run(tiny_llama, "x", range(5, 45)).clean
    coarse = exact.replace({i: (K.bfloat16(), V.bfloat16()) for i, (K, V) in enumerate(exact)})
    deltas = [Perturbation((0, 1), None, 30, norm, Stream((6,))) for norm in (0.02, 50.0)]
    small, large = perturbed(exact, deltas)[1]
    assert min(small or 0, large or 0) > 0.999
    small, large = perturbed(coarse, deltas)[1]
    assert (small or 0) < 0.9 < 0.99 < (large or 0)
    assert perturbed(coarse, [None])[1] == [None]


def test_the_clean_state_is_read_once_however_many_perturbations_there_are(tiny_llama: Any) -> None:
    prompt = Prompt.run(tiny_llama, "x", range(5, 60))
    reads = []

    def reference(state: KVState) -> torch.Tensor:
        reads.append(state.batch)
        return prompt.reader(tiny_llama, Defence())(state)

    deltas = along_norms([0.0, 1.0, 2.0], 5, [0, 1], 40, Stream((4,)))
    _drifts(prompt.clean, deltas, prompt.reader(tiny_llama, Defence()), reference)
    assert reads == [4]


def test_without_repair_drift_is_zero_at_delta_0_and_grows(tiny_llama: Any) -> None:
    prompt = Prompt.run(tiny_llama, "x", range(5, 60))
    read = prompt.reader(tiny_llama, Defence())
    deltas = along_norms([0.0, 0.5, 2.0, 8.0, 32.0], 4, [0, 1, 2], 40, Stream((4,)))
    found = _drifts(prompt.clean, deltas, read, read, batch=7)
    means = [found[0], *(sum(found[i : i + 4]) / 4 for i in range(1, 17, 4))]
    assert means[0] == 0.0
    assert all(a < b for a, b in pairwise(means))


def test_with_repair_the_value_at_delta_0_is_its_measured_clean_drift(tiny_llama: Any) -> None:
    ids = list(range(5, 60))
    prompt = Prompt.run(tiny_llama, "x", ids)
    smoothing = next(d for d in heuristic_defences([0, 1, 2], oracle=False) if d.name == "smoothing")
    deltas = along_norms([0.0], 2, [0, 1, 2], 40, Stream((4,)))
    readers = prompt.reader(tiny_llama, smoothing), prompt.reader(tiny_llama, Defence())
    found = _drifts(prompt.clean, deltas, *readers, batch=2)
    with torch.no_grad():
        plain = tiny_llama(torch.tensor([ids])).logits[0, -1]
        cache = tiny_llama(torch.tensor([ids[:-1]]), use_cache=True).past_key_values
        smoothing.repair.repair_cache(cache)  # type: ignore[attr-defined]
        repaired = tiny_llama(torch.tensor([ids[-1:]]), past_key_values=cache).logits[0, -1]
    drift = float((repaired - plain).norm())
    assert drift > 1e-4
    assert found == pytest.approx([drift], rel=1e-3)


def test_batched_values_equal_one_full_forward_per_direction(tiny_llama: Any) -> None:
    ids = list(range(5, 45))
    prompt = Prompt.run(tiny_llama, "x", ids)
    read = prompt.reader(tiny_llama, Defence())
    deltas = along_norms([2.0], 3, [0, 1, 2], 30, Stream((5,)))
    found = _drifts(prompt.clean, deltas, read, read, batch=16)
    with torch.no_grad():
        plain = tiny_llama(torch.tensor([ids])).logits[0, -1]
        for delta, value in zip(deltas, found, strict=True):
            again = Prompt.run(tiny_llama, "x", ids).clean  # a full prefill for every direction
            cache = perturbed(again, [delta])[0].cache()
            z = tiny_llama(torch.tensor([ids[-1:]]), past_key_values=cache).logits[0, -1]
            assert value == pytest.approx(float((z - plain).norm()), rel=1e-3)


def test_no_prompt_shares_text_with_an_example_of_a_task(small_setup: Any) -> None:
    setup = small_setup(stability__num_prompts=4)
    found, source = setup.prompts
    assert len(found) == 4
    used = [e.stored + e.query for task in setup.tasks for e in task.examples]
    pieces = {row[i : i + 12] for row in used for i in range(len(row) - 11)}
    assert not any(p[i : i + 12] in pieces for p in found for i in range(len(p) - 11))
    assert source["windows_no_task_uses"] < source["windows"]


def test_a_text_that_the_tasks_use_up_is_refused_before_anything_runs(small_setup: Any) -> None:
    with pytest.raises(UserError, match=r"none of the \d+ windows.*stability\.path"):
        small_setup(data__wikitext2__num_sequences=10_000)


def test_results_are_the_same_for_any_batch_and_come_in_both_number_formats(small_setup: Any) -> None:
    curves = {"baseline": Defence(), "heuristics": heuristic_defences((1, 2), oracle=False)[1]}
    results = []
    for batch in (3, 16):
        setup = small_setup(stability__batch=batch)
        results.append(measure_prompt(setup, curves, 0))
    for one, other in zip(*(_leaves(r) for r in results), strict=True):
        assert one is other is None or one == pytest.approx(other, rel=1e-3, abs=1e-5)
    exact, coarse = (results[0]["cosine"][dtype]["1"] for dtype in ("float32", "bfloat16"))
    assert min(exact) > 0.999 > max(coarse)
    assert results[0]["sensitivity"]["bfloat16"]["baseline"]["0"] == [0.0]


def test_a_defence_that_knows_the_time_mask_is_told_the_mask_of_the_perturbations(small_setup: Any) -> None:
    drifts = []
    for mode in ("old_only", "all_past"):
        setup = small_setup(stability__time_mode=mode)
        reset = heuristic_defences((1, 2), oracle=False, axes=setup.config.corruption.axes)[0]
        assert reset.name == "reset_clear"
        found = measure_prompt(setup, {"baseline": Defence(), "heuristics": reset}, 0)
        drifts.append(found["sensitivity"]["float32"]["heuristics"]["0"][0])
    assert drifts[0] != drifts[1]  # all that can be perturbed is thrown away, and nothing else


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for name, part in value.items() if name != "bfloat16" for leaf in _leaves(part)]
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list) else [value]
