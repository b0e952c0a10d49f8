"""The guard on tiny models: what it finds, what it follows, what it heals, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemedicpp import Guard, KVState, medic
from cachemedicpp.cache.calls import is_aside
from cachemedicpp.guard import load_cache, save_cache
from cachemedicpp.guard.heal import spans
from cachemedicpp.guard.ledger import Damage
from homeostat.core.errors import UserError

BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}


def ids_for(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 256, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Left-padded prompts, the first row without padding."""
    mask = torch.ones(rows, length, dtype=torch.long)
    for row in range(1, rows):
        mask[row, : 7 * row] = 0
    return ids_for(rows, length).masked_fill(mask == 0, 0), mask


@torch.no_grad()
def prefilled(model: Any, ids: torch.Tensor) -> Any:
    return model(input_ids=ids, use_cache=True).past_key_values


@torch.no_grad()
def next_logits(model: Any, cache: Any, token: torch.Tensor) -> torch.Tensor:
    return model(input_ids=token, past_key_values=KVState(cache).cache()).logits


def flip(cache: Any, layer: int, kind: int, element: int, bit: int) -> None:
    """Flip one stored bit in place."""
    stored = cache.layers[layer]
    x = (stored.keys, stored.values)[kind]
    whole = x.view(BITS[x.dtype]).flatten().clone()
    whole[element] ^= torch.tensor(1, dtype=whole.dtype) << bit
    changed = whole.view(x.dtype).view(x.shape)
    stored.keys, stored.values = (changed, stored.values) if kind == 0 else (stored.keys, changed)


@pytest.fixture(scope="module")
def watched(tiny_llama: Any) -> tuple[Any, Guard, Any]:
    ids = ids_for(2, 70)
    guard = Guard(tiny_llama)
    cache = prefilled(tiny_llama, ids)
    guard.watch(cache, ids)
    return tiny_llama, guard, cache


@settings(max_examples=150)
@given(
    layer=st.integers(0, 2),
    kind=st.integers(0, 1),
    element=st.integers(0, 2 * 2 * 70 * 16 - 1),
    bit=st.integers(0, 31),
)
def test_any_single_flipped_bit_is_found_and_located(
    watched: tuple[Any, Guard, Any], layer: int, kind: int, element: int, bit: int
) -> None:
    _, guard, cache = watched
    fork = KVState(cache).cache()
    flip(fork, layer, kind, element, bit)
    row, position = element // (2 * 70 * 16), element // 16 % 70
    assert guard.verify(fork) == [Damage(row, layer, position // guard.block, "KV"[kind])]


@settings(max_examples=100)
@given(
    elements=st.lists(st.integers(0, 2 * 2 * 70 * 16 - 1), min_size=2, max_size=40, unique=True),
    bit=st.integers(0, 31),
)
def test_the_same_bit_flipped_in_several_elements_does_not_cancel(
    watched: tuple[Any, Guard, Any], elements: list[int], bit: int
) -> None:
    _, guard, cache = watched
    fork = KVState(cache).cache()
    for element in elements:
        flip(fork, 1, 0, element, bit)
    blocks = {(e // (2 * 70 * 16), e // 16 % 70 // guard.block) for e in elements}
    assert {(d.row, d.block) for d in guard.verify(fork)} == blocks


@settings(max_examples=40)
@given(element=st.integers(0, 2 * 40 * 16 - 1), bit=st.integers(0, 15))
def test_bfloat16_bits_are_found_too(tiny_llama: Any, element: int, bit: int) -> None:
    ids = ids_for(1, 40)
    guard = Guard(tiny_llama)
    half = KVState(prefilled(tiny_llama, ids))
    half = half.replace({i: (K.bfloat16(), V.bfloat16()) for i, (K, V) in enumerate(half)})
    cache = half.cache()
    guard.watch(cache, ids)
    assert guard.verify(cache) == []
    flip(cache, 1, 0, element, bit)
    assert len(guard.verify(cache)) == 1


def test_ten_thousand_clean_verifications_raise_no_alarm(tiny_llama: Any) -> None:
    """Blocks verified across prefill, decode, batch growth, cropping and beam reordering."""
    generator = torch.Generator().manual_seed(1)
    verified = 0
    with torch.no_grad():
        for run in range(6):
            ids = ids_for(2, 48 + run, seed=run)
            guard = Guard(tiny_llama, block=8)
            cache = prefilled(tiny_llama, ids)
            guard.watch(cache, ids)
            cache.batch_repeat_interleave(2)
            for step in range(16):
                token = torch.randint(3, 256, (cache.layers[0].keys.shape[0], 1), generator=generator)
                tiny_llama(input_ids=token, past_key_values=cache)
                guard.watch(cache, token)
                if step % 3 == 0:
                    cache.reorder_cache(
                        torch.randint(0, token.shape[0], (token.shape[0],), generator=generator)
                    )
                if step == 6:
                    cache.crop(-5)
                if step == 11:
                    cache.batch_select_indices(torch.tensor([0, 2, 3]))
                assert guard.verify(cache) == []
                verified += guard.ledger.count  # type: ignore[union-attr]
    assert verified >= 10_000


@pytest.mark.parametrize("architecture", ["tiny_llama", "tiny_gpt2"])
def test_after_healing_logits_are_those_of_the_clean_cache(
    architecture: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(architecture)
    ids = ids_for(2, 70)
    cache = prefilled(model, ids)
    token = ids_for(2, 1, seed=9)
    clean = next_logits(model, cache, token)
    guard = Guard(model)
    guard.watch(cache, ids)
    for layer, positions in ((0, slice(3, 9)), (1, slice(40, 41)), (2, slice(0, 70))):
        stored = cache.layers[layer]
        stored.keys = stored.keys.clone()
        stored.keys[1, :, positions] = torch.nan
        stored.values = stored.values.roll(1, dims=1) if layer == 2 else stored.values
    before = [x.clone() for x in KVState(cache)[1]]
    found = guard.heal(cache)
    assert {(d.row, d.layer) for d in found} == {(1, 0), (1, 1), (1, 2), (0, 2)}
    assert torch.equal(KVState(cache)[1].V, before[1]), "undamaged blocks keep their bits"
    assert torch.equal(KVState(cache)[1].K[0], before[0][0])
    assert float((next_logits(model, cache, token) - clean).abs().max()) <= 1e-3
    assert guard.verify(cache) == []


@pytest.mark.parametrize("architecture", ["tiny_llama", "tiny_gpt2"])
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("beams", [1, 2])
def test_generate_under_a_guard_equals_clean_generation_despite_damage(
    architecture: str, every: int, beams: int, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(architecture)
    ids, mask = padded(3, 40)
    options = {
        "attention_mask": mask,
        "max_new_tokens": 12,
        "do_sample": False,
        "num_beams": beams,
        "pad_token_id": 0,
    }
    clean = model.generate(ids, **options)
    guard = Guard(model, every=every)
    damaged = [0]

    def damage(module: Any, args: Any, kwargs: Any) -> None:
        cache = kwargs.get("past_key_values")
        if cache is not None and cache.get_seq_length() == 40 and not is_aside() and not damaged[0]:
            damaged[0] = 1
            for stored in cache.layers:
                stored.values = stored.values.clone()
                stored.values[:, :, 10:20] = 7.0

    hook = model.base_model.register_forward_pre_hook(damage, with_kwargs=True)
    try:
        with guard:
            guarded = model.generate(ids, **options)
    finally:
        hook.remove()
    assert damaged[0] and guard.healed
    assert torch.equal(guarded, clean)
    assert not model.base_model._forward_hooks


def test_a_guard_works_inside_medic(tiny_llama: Any) -> None:
    ids, mask = padded(2, 40)
    options = {"attention_mask": mask, "max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    clean = tiny_llama.generate(ids, **options)
    guard = Guard(tiny_llama, every=2)
    with medic(tiny_llama, guard=guard):
        assert torch.equal(tiny_llama.generate(ids, **options), clean)
    assert guard.verified > 0 and guard.healed == []


def test_a_copy_of_a_followed_cache_is_not_followed(watched: tuple[Any, Guard, Any]) -> None:
    _, guard, cache = watched
    twin = KVState(cache).cache()
    twin.reorder_cache(torch.tensor([1, 0]))
    assert guard.verify(cache) == []
    assert len(guard.verify(twin)) > 0


def test_wrong_tokens_do_not_heal(tiny_llama: Any) -> None:
    ids = ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids_for(1, 40, seed=5))
    flip(cache, 2, 1, 5, 30)
    with pytest.raises(UserError, match="does not give what was stored"):
        guard.heal(cache)


def test_lost_fingerprints_are_refused(tiny_llama: Any) -> None:
    ids = ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    with pytest.raises(UserError, match="no fingerprints"):
        guard.heal(cache)
    guard.watch(cache, ids)
    guard.ledger.sums.sums[1, 0, 0, 0] += 1  # type: ignore[union-attr]
    with pytest.raises(UserError, match="own fingerprints were damaged"):
        guard.heal(cache)
    with guard, pytest.raises(UserError, match="filled before the guard watched it"):
        tiny_llama(input_ids=ids[:, :1], past_key_values=prefilled_outside(tiny_llama, ids))


def prefilled_outside(model: Any, ids: torch.Tensor) -> Any:
    return KVState(model(input_ids=ids, use_cache=True).past_key_values).cache()


def test_adjacent_damaged_blocks_are_recomputed_in_one_run() -> None:
    blocks = [Damage(0, 1, 3, "K"), Damage(0, 0, 4, "V"), Damage(1, 2, 0, "KV")]
    assert spans(blocks, 16, 70) == [(0, 16), (48, 70)]


def test_a_cache_on_disk_is_verified_and_healed(tiny_llama: Any, tmp_path: Any) -> None:
    ids = ids_for(2, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids)
    save_cache(cache, guard, tmp_path)
    file = tmp_path / "cache.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-100] ^= 4
    file.write_bytes(raw)
    loaded, ledger, _ = load_cache(tmp_path)
    other = Guard(tiny_llama)
    other.resume(loaded, ledger)
    assert len(other.verify(loaded)) == 1
    other.heal(loaded)
    for a, b in zip(KVState(loaded), KVState(cache), strict=True):
        assert torch.allclose(a.K, b.K, atol=1e-5) and torch.allclose(a.V, b.V, atol=1e-5)
    prints = tmp_path / "fingerprints.safetensors"
    raw = bytearray(prints.read_bytes())
    raw[-1] ^= 1
    prints.write_bytes(raw)
    with pytest.raises(UserError, match="was damaged"):
        load_cache(tmp_path)
