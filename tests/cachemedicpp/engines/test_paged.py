"""Fingerprints of a paged cache, and damage to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemedicpp.engines.blocks.paged import PagedCache, by_block
from cachemedicpp.engines.faults import BLOCKS, ELEMENTS, Fault, inject
from homeostat.core.errors import UserError

BLOCK_COUNT, SIZE, HEADS, DIM = 6, 8, 2, 4


def packed(dtype: torch.dtype = torch.float32) -> PagedCache:
    """Keys stored transposed, as vLLM's CPU backend does: neighbours belong to different positions."""
    numbers = torch.arange(2 * HEADS * SIZE * DIM).view(HEADS, 2, SIZE * DIM)
    K = numbers[:, 0].view(HEADS, DIM, SIZE).transpose(1, 2)
    V = numbers[:, 1].view(HEADS, SIZE, DIM)
    generator = torch.Generator().manual_seed(1)
    layers = {
        str(i): torch.randn(BLOCK_COUNT, HEADS, SIZE, 2 * DIM, generator=generator).to(dtype)
        for i in range(3)
    }
    return PagedCache(layers, BLOCK_COUNT, SIZE, torch.stack((K, V)))


@pytest.mark.parametrize(
    "shape",
    [(99, 2, 8, 16), (2, 99, 8, 4, 16), (99, 2, 8, 4, 16), (99, 8, 4, 16)],
)
def test_blocks_and_positions_are_found_in_every_order_of_dimensions(shape: tuple[int, ...]) -> None:
    cache = torch.arange(int(np.prod(shape))).view(shape)
    view = by_block(cache, 99, 8)
    assert view.shape[0] == 99 and view.shape[2] == 8 and view.numel() == cache.numel()


@pytest.mark.parametrize("shape", [(99, 8, 8, 16), (99, 3, 16), (7, 7, 3, 16)])
def test_an_unclear_order_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="cannot tell"):
        by_block(torch.zeros(shape), 99, 8)


@given(
    block=st.integers(0, BLOCK_COUNT - 1),
    layer=st.integers(0, 2),
    element=st.integers(0, HEADS * SIZE * 2 * DIM - 1),
    bit=st.integers(0, 15),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(max_examples=80, deadline=None)
def test_one_flipped_bit_changes_one_layer_of_one_block(
    block: int, layer: int, element: int, bit: int, dtype: torch.dtype
) -> None:
    cache = packed(dtype)
    blocks, whole = list(range(BLOCK_COUNT)), [SIZE] * BLOCK_COUNT
    before = cache.sums(blocks, whole)
    words = cache.layers[layer][block].view(torch.int16).flatten()
    words[element] ^= 1 << bit if bit < 15 else -(1 << 15)
    differ = np.argwhere(cache.sums(blocks, whole) != before).tolist()
    assert differ == [[block, layer]]


def test_an_unfinished_block_is_fingerprinted_by_position() -> None:
    cache = packed()
    before = cache.sums([1], [5])
    K, V = cache.kv(1)
    K[0, :, 5:] += 1.0  # behind what was fingerprinted
    cache.put_kv(1, 0, K[0], V[0])
    assert np.array_equal(cache.sums([1], [5]), before)
    K[0, 0, 4, 0] += 1.0
    cache.put_kv(1, 0, K[0], V[0])
    assert not np.array_equal(cache.sums([1], [5]), before)


def test_clearing_leaves_earlier_positions_as_they_are() -> None:
    cache = packed()
    K, V = cache.kv(2)
    cache.clear(2, 3)
    K2, V2 = cache.kv(2)
    assert torch.equal(K2[:, :, :3], K[:, :, :3]) and torch.equal(V2[:, :, :3], V[:, :, :3])
    assert not K2[:, :, 3:].any() and not V2[:, :, 3:].any()


@pytest.mark.parametrize("kind", [*ELEMENTS, *BLOCKS, "gaussian", "bitflipish_sparse", "orthogonal_rotation"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_fault_changes_bits_of_its_block_the_same_way_each_time(kind: str, dtype: torch.dtype) -> None:
    caches = [packed(dtype), packed(dtype)]
    for cache in caches:
        before = cache.sums([0, 1, 2], [SIZE] * 3)
        donors = [cache.read(5)] if kind == "stale" else [4]
        numbers = inject(cache, Fault(kind, 0.2, seed=3), [1], "draw", donors)
        changed = (cache.sums([0, 1, 2], [SIZE] * 3) != before).any(1).tolist()
        assert numbers > 0 and changed == [False, True, False]
    words = [cache.read(1).view(torch.int16) for cache in caches]
    assert torch.equal(*words)


def test_a_fault_in_few_layers_leaves_the_others() -> None:
    cache = packed()
    before = cache.sums([1], [SIZE])[0]
    inject(cache, Fault("bit", 1e-9, layers=0.01), [1], "draw")
    assert (cache.sums([1], [SIZE])[0] != before).sum() == 1


def test_an_unknown_fault_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'bit'"):
        Fault("bits").check()
