"""Where a guard could be fooled or stumble: positions, tokens made from damage, other caches, own hooks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from cachemedicpp import Guard, KVState, medic
from cachemedicpp.cache.calls import is_aside
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig
from cachemedicpp.guard.sketch import alike
from homeostat.core.errors import UserError

GREEDY: dict[str, Any] = {"do_sample": False, "pad_token_id": 0, "return_dict_in_generate": True}


def ids_for(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 256, (rows, length), generator=torch.Generator().manual_seed(seed))


def prefilled(model: Any, ids: torch.Tensor, **more: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True, **more).past_key_values


def hurt(cache: Any, layer: int, where: slice, kind: str = "values", row: int = 0) -> None:
    x = getattr(cache.layers[layer], kind).clone()
    x[row, :, where] = 7.0
    setattr(cache.layers[layer], kind, x)


def apart(cache: Any, reference: Any) -> float:
    """The largest difference in the positions that both hold."""
    pairs = zip(KVState(cache), KVState(reference), strict=True)
    return max(
        float((a[:, :, : b.shape[2]] - b).abs().max()) for x, y in pairs for a, b in zip(x, y, strict=True)
    )


def left_padded(rows: int, length: int, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(rows, length, dtype=torch.long)
    mask[-1, :padding] = 0
    return ids_for(rows, length), mask


@pytest.mark.parametrize("inside", ["guard", "medic"])
def test_positions_are_the_ones_that_the_model_used(tiny_llama: Any, inside: str) -> None:
    """A left-padded forward without position_ids counts from 0 at the padding, unlike generate()."""
    ids, mask = left_padded(2, 80, 20)
    guard = Guard(tiny_llama)
    block = guard if inside == "guard" else medic(tiny_llama, guard=guard)
    with torch.no_grad(), block:
        cache = tiny_llama(input_ids=ids, attention_mask=mask, use_cache=True).past_key_values
        clean = KVState(cache).cache()
        hurt(cache, 0, slice(40, 44), "keys", row=1)
        longer = torch.cat((mask, torch.ones(2, 1, dtype=torch.long)), 1)
        tiny_llama(input_ids=ids[:, :1], attention_mask=longer, past_key_values=cache)
    assert [d.block for d in guard.healed] == [1]
    assert apart(cache, clean) < 1e-4


def test_keys_of_other_positions_are_not_accepted(tiny_llama: Any) -> None:
    """A rotation keeps every norm: only the signed sums of a sketch can tell."""
    ids = ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids, position_ids=torch.arange(7, 47).unsqueeze(0))
    hurt(cache, 0, slice(5, 6), "keys")
    with pytest.raises(UserError, match="does not give what was stored"):
        guard.heal(cache)


def test_tokens_in_another_order_are_not_accepted(tiny_llama: Any) -> None:
    ids = ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    swapped = ids.clone()
    swapped[0, [3, 9]] = ids[0, [9, 3]]
    guard.watch(cache, swapped)
    hurt(cache, 0, slice(20, 21), "keys")
    with pytest.raises(UserError, match="does not give what was stored"):
        guard.heal(cache)


def test_a_sketch_forgives_rounding_and_nothing_else() -> None:
    there = torch.tensor([100.0, 3.0, -2.0, 0.5, 8.0], dtype=torch.float64)
    rounded, other = there.clone(), there.clone()
    rounded[2] += 0.02  # tolerance: 3e-3 of √100
    other[2] += 0.04
    assert alike(rounded, there, torch.float32)
    assert not alike(other, there, torch.float32)
    assert alike(other, there, torch.bfloat16)


@pytest.mark.parametrize("every", [1, 5, 16])
def test_what_was_made_from_a_damaged_cache_is_made_anew(tiny_llama: Any, every: int) -> None:
    """Damage between two verifications spoils the tokens in between: these are not sealed as they are."""
    ids, done = ids_for(1, 64), []
    guard = Guard(tiny_llama, every=every)

    def damage(module: Any, args: Any, kwargs: Any) -> None:
        cache = kwargs.get("past_key_values")
        if cache is not None and cache.get_seq_length() == 67 and not is_aside() and not done:
            done.append(True)
            for layer in range(3):
                hurt(cache, layer, slice(5, 20))

    hook = tiny_llama.base_model.register_forward_pre_hook(damage, with_kwargs=True)
    try:
        with guard:
            out = tiny_llama.generate(ids, max_new_tokens=40, **GREEDY)
    finally:
        hook.remove()
    assert guard.healed
    assert apart(out.past_key_values, prefilled(tiny_llama, out.sequences[:, :-1])) < 1e-3


def test_healing_and_cropping_inside_the_block_are_not_watched_by_its_own_hooks(tiny_llama: Any) -> None:
    ids = ids_for(1, 70)
    with torch.no_grad(), Guard(tiny_llama) as guard:
        cache = tiny_llama(input_ids=ids, use_cache=True).past_key_values
        clean = KVState(cache).cache()
        hurt(cache, 2, slice(3, 5))
        assert len(guard.heal(cache)) == 1
        assert apart(cache, clean) < 1e-4
        hurt(cache, 1, slice(40, 42))
        cache.crop(-3)
        tiny_llama(input_ids=ids[:, :1], past_key_values=cache)
    assert len(guard.healed) == 2


def test_a_guard_within_a_guard_heals_too(tiny_llama: Any) -> None:
    ids = ids_for(1, 70)
    with torch.no_grad(), Guard(tiny_llama) as outer, Guard(tiny_llama) as inner:
        cache = tiny_llama(input_ids=ids, use_cache=True).past_key_values
        clean = KVState(cache).cache()
        hurt(cache, 2, slice(40, 42))
        tiny_llama(input_ids=ids[:, :1], past_key_values=cache)
    assert outer.healed or inner.healed
    assert apart(cache, clean) < 1e-4


def test_a_guard_is_on_duty_once(tiny_llama: Any) -> None:
    guard = Guard(tiny_llama)
    with guard, pytest.raises(UserError, match="on duty already"), guard:
        pass
    assert not tiny_llama.base_model._forward_pre_hooks


def test_what_changed_between_two_blocks_is_not_undone(tiny_llama: Any) -> None:
    """A conversation that was cut back and continued elsewhere is not damage."""
    ids = ids_for(1, 64)
    guard = Guard(tiny_llama)
    with torch.no_grad():
        with guard:
            cache = tiny_llama(input_ids=ids, use_cache=True).past_key_values
        assert type(cache) is DynamicCache
        cache.crop(-32)
        tiny_llama(input_ids=ids_for(1, 32, seed=7), past_key_values=cache)
        clean = KVState(cache).cache()
        with guard, pytest.raises(UserError, match="filled before the guard watched it"):
            tiny_llama(input_ids=ids[:, :1], past_key_values=cache)
    assert apart(cache, clean) == 0.0


def test_a_cache_it_never_saw_is_left_to_the_repair_once(tiny_llama: Any) -> None:
    class Repair:
        calls = 0

        def repair_cache(self, cache: Any, attention_mask: Any = None) -> dict[str, Any]:
            self.calls += 1
            return {}

    repair, ids = Repair(), ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    with torch.no_grad(), Guard(tiny_llama, repair=repair):  # type: ignore[arg-type]
        for _ in range(3):
            tiny_llama(input_ids=ids[:, :1], past_key_values=cache)
    assert repair.calls == 1


def test_corruption_under_a_guard_is_done_to_the_store_and_healed(
    tiny_llama: Any, byte_tokenizer: Any
) -> None:
    config = CorruptionConfig(axes=AxesConfig(head_mode="all", N_recent=8))
    family = CorruptionFamily.build(config, tiny_llama, byte_tokenizer, (1, 2), seed=0)
    ids = ids_for(1, 64)
    clean = tiny_llama.generate(ids, max_new_tokens=12, **GREEDY).sequences
    injection = family.at("gaussian", 0.64)
    with medic(tiny_llama, corruption=injection):
        damaged = tiny_llama.generate(ids, max_new_tokens=12, **GREEDY).sequences
    guard = Guard(tiny_llama)
    with medic(tiny_llama, corruption=injection, guard=guard) as session:
        healed = tiny_llama.generate(ids, max_new_tokens=12, **GREEDY).sequences
    assert not torch.equal(damaged, clean)
    assert torch.equal(healed, clean)
    assert session.events and guard.healed


def test_blocks_with_padding_heal_under_eager_attention(tiny_llama: Any) -> None:
    """There a padded position looks at all that follows, so its own numbers cannot be recomputed."""
    ids, mask = left_padded(2, 40, 14)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    before = tiny_llama.config._attn_implementation
    tiny_llama.set_attn_implementation("eager")
    try:
        cache = prefilled(tiny_llama, ids, attention_mask=mask, position_ids=positions)
        clean = KVState(cache).cache()
        guard = Guard(tiny_llama)
        guard.watch(cache, ids, mask, positions)
        hurt(cache, 1, slice(18, 20), row=1)
        assert len(guard.heal(cache)) == 1
    finally:
        tiny_llama.set_attn_implementation(before)
    real = mask[1].bool()
    for (K, V), (a, b) in zip(KVState(cache), KVState(clean), strict=True):
        assert (K[1, :, real] - a[1, :, real]).abs().max() < 1e-4
        assert (V[1, :, real] - b[1, :, real]).abs().max() < 1e-4


def test_watching_twice_changes_nothing_and_shapes_must_fit(tiny_llama: Any) -> None:
    ids, mask = left_padded(2, 40, 10)
    cache = prefilled(tiny_llama, ids, attention_mask=mask)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids, mask)
    seal = guard.ledger.seal  # type: ignore[union-attr]
    guard.watch(cache, ids, mask)
    assert guard.ledger is not None and guard.ledger.seal == seal
    for wrong in ({"input_ids": ids[0]}, {"input_ids": ids, "attention_mask": mask[:, :30]}):
        with pytest.raises(UserError, match="shape"):
            Guard(tiny_llama).watch(cache, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="empty"):
        guard.verify(DynamicCache())


@pytest.mark.parametrize("bit", [0, 31, 61, 62, 63])
def test_any_flipped_bit_of_a_fingerprint_breaks_its_seal(tiny_llama: Any, bit: int) -> None:
    ids = ids_for(1, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids)
    assert guard.ledger is not None and guard.ledger.intact
    guard.ledger.sums.sums[0, 0, 0, 0] ^= -(2**63) if bit == 63 else 1 << bit
    assert not guard.ledger.intact


def test_a_followed_cache_takes_keywords_and_can_be_pickled(tiny_llama: Any) -> None:
    ids = ids_for(2, 40)
    cache = prefilled(tiny_llama, ids)
    guard = Guard(tiny_llama)
    guard.watch(cache, ids)
    cache.reorder_cache(beam_idx=torch.tensor([1, 0]))
    assert guard.verify(cache) == []
    twin = pickle.loads(pickle.dumps(cache))  # noqa: S301
    assert type(twin) is DynamicCache
    assert guard.verify(twin) == []
    cache.batch_repeat_interleave(repeats=2)
    assert guard.verify(cache) == []


def test_a_cache_of_another_model_is_not_healed(tiny_llama: Any) -> None:
    ids = ids_for(1, 10)
    guard = Guard(tiny_llama)
    guard.watch(prefilled(tiny_llama, ids), ids)
    other = DynamicCache()
    for layer in range(3):
        other.update(torch.randn(1, 4, 10, 8), torch.randn(1, 4, 10, 8), layer)
    with pytest.raises(UserError, match="made by another model"):
        guard.heal(other)
