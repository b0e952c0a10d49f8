"""Stability metrics: a linear toy worked out by hand, measured drift at delta 0, growth, batching."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from cachemedicpp.cache.state import KVState
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.eval.defences import Defence, heuristics
from cachemedicpp.stability.measures import (
    EPS0,
    Prompt,
    amplification,
    directions,
    drifts,
    perturbed,
    relative_norm,
    sensitivity,
)


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


def test_directions_have_norm_one_in_each_layer_over_keys_and_values_together() -> None:
    units = directions(_toy(), [0], old=2, stream=Stream((0,)), count=5)
    squares = units[0].K.square().sum((1, 2, 3)) + units[0].V.square().sum((1, 2, 3))
    assert squares.tolist() == pytest.approx([1.0] * 5)


def test_directions_are_zero_outside_the_time_mask_and_other_heads(tiny_llama: Any) -> None:
    clean = Prompt.run(tiny_llama, "x", range(5, 25)).clean
    units = directions(clean, [1, 2], old=12, stream=Stream((0,)), count=2, heads=[1])
    for layer in (1, 2):
        for x in units[layer]:
            assert float(x[:, :, 12:].abs().max()) == 0.0
            assert float(x[:, 0].abs().max()) == 0.0
            assert float(x[:, 1, :12].abs().max()) > 0.0


def test_on_a_linear_toy_sensitivity_is_gain_times_norm_times_rms() -> None:
    """By hand: ||delta||_F = norm * 1 * rms = norm * 2; z moves by gain * that."""
    clean = _toy()
    units = directions(clean, [0], 2, Stream((1,)), count=3)
    read = _linear(3.0)
    found = sensitivity(clean, units, 3, [0.0, 0.5, 2.0], read, read, None, batch=4)
    assert found[0.0] == [0.0, 0.0, 0.0]
    assert found[0.5] == pytest.approx([3.0 * 0.5 * 2.0] * 3, rel=1e-5)
    assert found[2.0] == pytest.approx([3.0 * 2.0 * 2.0] * 3, rel=1e-5)


def test_on_a_linear_toy_amplification_is_the_gain() -> None:
    clean = _toy()
    read = _linear(3.0)
    found = amplification(clean, 0, [0], 2, Stream((2,)), 4, 1.0, read, read, None, batch=3)
    assert found[0] == pytest.approx([3.0 * 2.0 / (2.0 + EPS0)] * 4, rel=1e-5)


def test_only_the_top_k_logits_of_the_clean_output_count() -> None:
    """z_clean = (0, 10, 20): with k = 1 only the last logit counts."""
    clean = _toy()
    units = directions(clean, [0], 2, Stream((3,)), count=1)
    weights = torch.tensor([0.0, 10.0, 20.0])

    def read(state: KVState) -> torch.Tensor:
        return weights * state[0].V.flatten(1)[:, :3] / 2.0

    drift = drifts(clean, units, [(0, 1.0)], read, read, topk=1)
    moved = float(2.0 * units[0].V.flatten()[2])
    assert drift == pytest.approx([abs(10.0 * moved)], rel=1e-5)


def test_relative_norm_by_hand() -> None:
    """||delta|| = 0.5 * 2 = 1 and ||S|| = sqrt(8 * 4): one over sqrt(32)."""
    assert relative_norm(_toy(), [0], 0.5) == pytest.approx(1 / math.sqrt(32))


def test_perturbed_changes_only_the_chosen_layers(tiny_llama: Any) -> None:
    clean = Prompt.run(tiny_llama, "x", range(5, 25)).clean
    units = directions(clean, [1], 12, Stream((0,)), count=2)
    state = perturbed(clean, units, [(0, 1.0), (1, 2.0)])
    assert torch.equal(state[0].K, clean[0].K.expand(2, -1, -1, -1))
    assert not torch.equal(state[1].K[:1], clean[1].K)


def test_without_repair_drift_is_zero_at_delta_0_and_grows(tiny_llama: Any) -> None:
    prompt = Prompt.run(tiny_llama, "x", range(5, 60))
    read = prompt.reader(tiny_llama, Defence())
    units = directions(prompt.clean, [0, 1, 2], 40, Stream((4,)), count=4)
    norms = [0.0, 0.5, 2.0, 8.0, 32.0]
    found = sensitivity(prompt.clean, units, 4, norms, read, read, None, batch=7)
    means = [sum(found[norm]) / 4 for norm in norms]
    assert means[0] == 0.0
    assert all(a < b for a, b in pairwise(means))


def test_with_repair_the_value_at_delta_0_is_its_measured_clean_drift(tiny_llama: Any) -> None:
    ids = list(range(5, 60))
    prompt = Prompt.run(tiny_llama, "x", ids)
    smoothing = next(d for d in heuristics([0, 1, 2], oracle=False) if d.name == "smoothing")
    units = directions(prompt.clean, [0, 1, 2], 40, Stream((4,)), count=2)
    found = sensitivity(
        prompt.clean,
        units,
        2,
        [0.0],
        prompt.reader(tiny_llama, smoothing),
        prompt.reader(tiny_llama, Defence()),
        None,
        batch=2,
    )
    with torch.no_grad():
        plain = tiny_llama(torch.tensor([ids])).logits[0, -1]
        cache = tiny_llama(torch.tensor([ids[:-1]]), use_cache=True).past_key_values
        smoothing.repair.repair_cache(cache)  # type: ignore[attr-defined]
        repaired = tiny_llama(torch.tensor([ids[-1:]]), past_key_values=cache).logits[0, -1]
    drift = float((repaired - plain).norm())
    assert drift > 1e-4
    assert found[0.0] == pytest.approx([drift, drift], rel=1e-3)


def test_batched_values_equal_one_full_forward_a_direction(tiny_llama: Any) -> None:
    ids = list(range(5, 45))
    prompt = Prompt.run(tiny_llama, "x", ids)
    read = prompt.reader(tiny_llama, Defence())
    units = directions(prompt.clean, [0, 1, 2], 30, Stream((5,)), count=3)
    found = sensitivity(prompt.clean, units, 3, [2.0], read, read, None, batch=16)
    with torch.no_grad():
        plain = tiny_llama(torch.tensor([ids])).logits[0, -1]
        for i, value in enumerate(found[2.0]):
            again = Prompt.run(tiny_llama, "x", ids).clean  # a full prefill for every direction
            cache = perturbed(again, units, [(i, 2.0)]).cache()
            z = tiny_llama(torch.tensor([ids[-1:]]), past_key_values=cache).logits[0, -1]
            assert value == pytest.approx(float((z - plain).norm()), rel=1e-3)
