"""A growing cache stores what a dynamic one stores, whatever is done to both."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from cachemedicpp.cache.growing import GrowingLayer, make_room

STEPS = st.lists(st.sampled_from(["append", "append", "append", "crop", "select", "replace"]), max_size=12)


def _new(generator: torch.Generator, rows: int, count: int) -> list[torch.Tensor]:
    return [torch.randn(rows, 2, count, 4, generator=generator) for _ in "KV"]


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, room=st.integers(0, 5), seed=st.integers(0, 999))
def test_it_holds_what_a_dynamic_cache_holds(steps: list[str], room: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    plain, growing = DynamicCache(), DynamicCache()
    first = _new(generator, 3, 4)
    for cache in (plain, growing):
        cache.update(*first, 0)
    make_room(growing, room)
    assert isinstance(growing.layers[0], GrowingLayer)
    for step in steps:
        rows = plain.layers[0].keys.shape[0]
        new = _new(generator, rows, 1 + seed % 2)
        for cache in (plain, growing):
            layer = cache.layers[0]
            if step == "append":
                returned = cache.update(*new, 0)
                assert torch.equal(returned[0], layer.keys) and torch.equal(returned[1], layer.values)
            elif step == "crop":
                cache.crop(-1)
            elif step == "select":
                cache.batch_select_indices(torch.arange(max(1, rows - 1)))
            else:
                layer.keys, layer.values = layer.keys + 1, layer.values * 2
        for a, b in zip(_stored(plain), _stored(growing), strict=True):
            assert torch.equal(a, b)
        assert plain.get_seq_length() == growing.get_seq_length()


def _stored(cache: DynamicCache) -> tuple[torch.Tensor, torch.Tensor]:
    return cache.layers[0].keys, cache.layers[0].values


def test_what_was_handed_out_before_is_not_written_over() -> None:
    """A state that shares its tensors with the cache keeps its numbers when the cache goes on."""
    generator = torch.Generator().manual_seed(0)
    cache = DynamicCache()
    cache.update(*_new(generator, 1, 4), 0)
    make_room(cache, 4)
    cache.update(*_new(generator, 1, 1), 0)
    before, values = cache.layers[0].keys, cache.layers[0].keys.clone()
    cache.update(*_new(generator, 1, 1), 0)
    assert torch.equal(before, values)
