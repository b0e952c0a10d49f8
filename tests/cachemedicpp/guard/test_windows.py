"""The guard over caches with sliding windows: inside the window, at its edge, beyond it, far beyond it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.windowed import KINDS, WINDOW, windowed

from cachemedicpp.cache.state import KVState
from cachemedicpp.guard import Guard, save_cache
from homeostat.core.errors import UserError

LENGTHS = (WINDOW - 6, WINDOW, WINDOW + 1, 3 * WINDOW + 5)


def prefill(model: Any, length: int, rows: int = 2, seed: int = 0) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(seed)
    ids = torch.randint(3, 256, (rows, length))
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True).past_key_values, ids


def flip(cache: Any, layer: int, kind: str, place: int, bit: int) -> None:
    """Flip one bit of one stored element."""
    x = getattr(cache.layers[layer], kind).clone()
    x.view(-1).view(torch.int32)[place % x.numel()] ^= 1 << bit if bit < 31 else -(2**31)
    setattr(cache.layers[layer], kind, x)


def numbers(cache: Any) -> list[torch.Tensor]:
    return [x for kv in KVState(cache) for x in kv]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", LENGTHS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    layer=st.integers(0, 2),
    tensor=st.sampled_from(["keys", "values"]),
    place=st.integers(0, 10**6),
    bit=st.integers(0, 31),
)
def test_any_flipped_bit_is_found_and_healing_equals_the_clean_cache(
    kind: str, length: int, layer: int, tensor: str, place: int, bit: int
) -> None:
    model = windowed(kind)
    cache, ids = prefill(model, length)
    clean = [x.clone() for x in numbers(cache)]
    guard = Guard(model, block=8)
    guard.watch(cache, ids)
    assert guard.verify(cache) == []
    flip(cache, layer, tensor, place, bit)
    (damage,) = guard.verify(cache)
    assert (damage.layer, damage.tensor) == (layer, "K" if tensor == "keys" else "V")
    assert guard.heal(cache) == [damage]
    for healed, was in zip(numbers(cache), clean, strict=True):
        assert torch.allclose(healed, was, atol=1e-5)
    assert guard.verify(cache) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_generated_over_damage_equals_what_is_generated_without_it(
    kind: str, every: int, length: int
) -> None:
    """Damage after the prefill, in every layer; 40 tokens move the window over all that was damaged."""
    model = windowed(kind)
    cache, ids = prefill(model, length)
    told: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None}
    start = torch.cat((ids, torch.full((2, 1), 7)), 1)
    clean = model.generate(start, past_key_values=copy.deepcopy(cache), **told)
    with Guard(model, every=every, block=8) as guard:
        guard.watch(cache, ids)
        for layer in range(3):
            flip(cache, layer, "keys", 16 * 5 + layer, 30)
        assert torch.equal(model.generate(start, past_key_values=cache, **told), clean)
    assert {damage.layer for damage in guard.healed} == {0, 1, 2}


@pytest.mark.parametrize("kind", KINDS)
def test_padded_rows_and_chunks_of_prefill_are_guarded_beyond_the_window(kind: str) -> None:
    model = windowed(kind)
    torch.manual_seed(1)
    ids = torch.randint(3, 256, (2, 2 * WINDOW))
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    guard, cache = Guard(model, block=8), None
    with torch.no_grad():
        for a, b in ((0, 10), (10, 2 * WINDOW - 3), (2 * WINDOW - 3, 2 * WINDOW)):
            cache = model(
                input_ids=ids[:, a:b],
                attention_mask=mask[:, :b],
                position_ids=places[:, a:b],
                past_key_values=cache,
                use_cache=True,
            ).past_key_values
            guard.watch(cache, ids[:, a:b], mask[:, a:b], places[:, a:b])
    clean = [x.clone() for x in numbers(cache)]
    flip(cache, 2, "values", -3, 22)
    assert [damage.layer for damage in guard.heal(cache)] == [2]
    for healed, was in zip(numbers(cache), clean, strict=True):
        assert torch.allclose(healed, was, atol=1e-5)


def test_a_cache_with_a_window_is_not_saved(tmp_path: Path) -> None:
    model = windowed("gemma3")
    cache, ids = prefill(model, 12)
    guard = Guard(model)
    guard.watch(cache, ids)
    with pytest.raises(UserError, match="cache layer 0 has a sliding window"):
        save_cache(cache, guard, tmp_path)
    assert not list(tmp_path.iterdir())
