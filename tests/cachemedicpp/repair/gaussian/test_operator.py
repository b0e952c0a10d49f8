"""Operator G on tiny models: exact arithmetic of its parts, and what it must never do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from cachemedicpp import KVState, Rotary, load_repair, medic
from cachemedicpp.cache.rotation import Pairs, still
from cachemedicpp.cache.state import write
from cachemedicpp.repair.gaussian import GaussianRepair, calibrate, exact, fit, sinks
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.impute import fill
from cachemedicpp.repair.gaussian.noise import only_noise, worth_taking
from cachemedicpp.repair.gaussian.statistics import SinkClass
from cachemedicpp.repair.gaussian.store import make, save
from cachemedicpp.repair.gaussian.tokens import blocks_of, gather, table
from homeostat.core.errors import UserError

LENGTH = 96


def text(rows: int, length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    """Token ids with few common and many rare ones, like text."""
    generator = torch.Generator().manual_seed(seed)
    return (3 + 250 * torch.rand(rows, length, generator=generator) ** 3).long()


@pytest.fixture(scope="module", params=["tiny_llama", "tiny_gpt2"])
def calibrated(request: pytest.FixtureRequest) -> tuple[Any, GaussianRepair]:
    model = request.getfixturevalue(request.param)
    return model, make(calibrate(model, text(96, seed=1), batch=32), model, {"text": "random"})


@torch.no_grad()
def stored(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None) -> KVState:
    places = None if mask is None else (mask.cumsum(-1) - 1).clamp(min=0)
    options = {} if mask is None else {"attention_mask": mask, "position_ids": places}
    return KVState(model(input_ids=ids, use_cache=True, **options).past_key_values)


def wide_llama(layers: int, heads: int) -> Any:
    """A random model of width 128."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
    )
    return LlamaForCausalLM(config).eval()


def damaged(state: KVState, damage: Any) -> Any:
    cache = state.cache()
    write(cache, {i: (damage(K.clone(), "K"), damage(V.clone(), "V")) for i, (K, V) in enumerate(state)})
    return cache


def distance(a: KVState, b: KVState) -> float:
    return sum(
        float((x - y).square().sum()) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )


def zeros(share: float, seed: int = 3) -> Any:
    generator = torch.Generator().manual_seed(seed)

    def damage(x: torch.Tensor, _: str) -> torch.Tensor:
        return x.masked_fill(torch.rand(x.shape, generator=generator) < share, 0.0)

    return damage


def noise(level: float, seed: int = 4) -> Any:
    generator = torch.Generator().manual_seed(seed)

    def damage(x: torch.Tensor, _: str) -> torch.Tensor:
        rms = x.float().square().mean(-1, keepdim=True).sqrt()
        return (x + level * rms * torch.randn(x.shape, generator=generator)).to(x.dtype)

    return damage


def test_rotation_read_off_the_model_is_the_models_own(tiny_llama: Any) -> None:
    pairs, rotary = Pairs.probe(tiny_llama, 3, 16), Rotary(tiny_llama)
    keys = torch.randn(1, 2, 50, 16, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(50).unsqueeze(0)
    theirs = rotary.rotate(keys, positions)[0].transpose(0, 1)  # [T, H, d]
    turn = pairs.at(positions[0], 0)
    assert torch.allclose(turn.turn(keys[0].transpose(0, 1)), theirs, atol=1e-4)
    assert torch.allclose(turn.back(theirs), keys[0].transpose(0, 1), atol=1e-4)


def test_turned_precision_blocks_are_those_of_the_turned_matrix(tiny_llama: Any) -> None:
    turn = Pairs.probe(tiny_llama, 3, 16).at(torch.tensor([7]), 0)
    P = torch.randn(16, 16)
    P = P @ P.T
    R = turn.turn(torch.eye(16).unsqueeze(0))[0].T  # columns are turned unit vectors
    whole = R @ P @ R.T
    index = torch.tensor([[1, 9, 4]])
    assert torch.allclose(turn.block(P, index)[0], whole[index[0]][:, index[0]], atol=1e-4)
    assert torch.allclose(turn.diagonal(P)[0], whole.diagonal(), atol=1e-4)


def test_fill_is_the_conditional_mean_worked_out_by_hand() -> None:
    """Two variables of unit variance and correlation 0.8: a lost one is 0.8 times the other."""
    P = torch.linalg.inv(torch.tensor([[1.0, 0.8], [0.8, 1.0]]))
    x, lost = torch.tensor([[2.0, 99.0], [5.0, 1.0]]), torch.tensor([[False, True], [True, False]])
    assert torch.allclose(fill(x, lost, P, still(2)), torch.tensor([[2.0, 1.6], [0.8, 1.0]]))


def on_grid(x: torch.Tensor, bits: int, dim: int, run: int) -> torch.Tensor:
    """`x` rounded to `2^bits` levels from the least to the largest of each run of numbers along `dim`."""
    runs = x.movedim(dim, -1).unflatten(-1, (-1, run))
    low, high = runs.amin(-1, keepdim=True), runs.amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    return (((runs - low) / step).round() * step + low).flatten(-2).movedim(-1, dim)


def test_zeros_are_lost_unless_the_head_is_on_a_grid() -> None:
    x = torch.randn(16, 1, 2, 16, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] = (x[:, :, 1] * 2).round() / 2
    x[3, 0, 0, 5] = 0.0
    cell = exact.cells(x, torch.zeros(16, dtype=torch.long), 1, coarse=False)
    assert (cell[:, 0, 0] == 0).all() and torch.allclose(cell[:, 0, 1], torch.tensor(0.5))
    assert exact.lost_elements(x, torch.ones(1, 2), cell).nonzero().tolist() == [[3, 0, 0, 5]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("dim", "run"), [(0, 32), (0, 16), (3, 64), (3, 32)])
def test_a_cell_is_as_wide_as_storage_has_made_it(dtype: torch.dtype, dim: int, run: int) -> None:
    """Channels over positions, head vectors and parts of them; what is on no grid has no cell."""
    x = torch.randn(64, 1, 2, 64, generator=torch.Generator().manual_seed(0)) + 0.5
    rounded = on_grid(x, 2, dim, run).to(dtype).float()
    coarse, number = dtype != torch.float32, torch.arange(64) // 16
    cell = exact.cells(rounded, number, 4, coarse)
    assert (cell > 0).float().mean() > 0.99
    error = (rounded - x).square().mean()
    assert float(error) == pytest.approx(float(cell.square().mean()) / 12, rel=0.15)
    others = (x, x + 20, x.clamp(-1, 1), x * (torch.rand(x.shape) > 0.6))
    assert not any(bool(exact.cells(y.to(dtype).float(), number, 4, coarse).any()) for y in others)


def test_a_clean_cache_keeps_its_bits_and_is_reported_sound(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(4, seed=7))
    cache = state.cache()
    report = repair.repair_cache(cache)
    assert report["noisy"] == [] and report["misfits"] == [] and report["imputed"]["lost"] == 0
    assert distance(KVState(cache), state) <= 1e-4 * float(state.norm().square().sum())


@pytest.mark.parametrize(
    "damage", [zeros(0.02), zeros(0.16), noise(0.9)], ids=["zeros", "many zeros", "noise"]
)
def test_damage_shrinks(calibrated: tuple[Any, GaussianRepair], damage: Any) -> None:
    model, repair = calibrated
    state = stored(model, text(3, seed=8))
    cache = damaged(state, damage)
    before = distance(KVState(cache), state)
    repair.repair_cache(cache)
    assert distance(KVState(cache), state) < 0.5 * before


@pytest.mark.parametrize("run", [32, 96])
def test_storage_in_two_bits_comes_nearer_to_what_was_rounded(
    calibrated: tuple[Any, GaussianRepair], run: int
) -> None:
    """Keys with a step for each channel over `run` positions, values with one for each vector."""
    model, repair = calibrated
    state = stored(model, text(3, seed=8))
    cache = damaged(
        state, lambda x, kind: on_grid(x, 2, 2, run) if kind == "K" else on_grid(x, 2, 3, x.shape[3])
    )
    before = distance(KVState(cache), state)
    repair.repair_cache(cache)
    assert distance(KVState(cache), state) < 0.9 * before


@pytest.mark.parametrize("damage", [zeros(0.1), noise(0.5)])
def test_without_its_detectors_it_leaves_what_they_would_have_found(
    calibrated: tuple[Any, GaussianRepair], damage: Any
) -> None:
    """Zeros stand out as outliers, strange vectors and noise too: all four tests go before they stay."""
    model, operator = calibrated
    cache = damaged(stored(model, text(2, seed=11)), damage)
    before = KVState(cache)
    unaware = {"dropout_zero", "bitflipish_sparse", "gaussian", "orthogonal_rotation"}
    GaussianRepair(operator.stats, operator.card, unaware).repair_cache(cache)
    for one, other in zip(KVState(cache), before, strict=True):
        assert torch.equal(one.K, other.K) and torch.equal(one.V, other.V)
    operator.repair_cache(cache)
    assert distance(KVState(cache), before) > 0


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_turned_vectors_are_imputed_and_the_others_hardly_move(
    calibrated: tuple[Any, GaussianRepair], share: float
) -> None:
    model, repair = calibrated
    state = stored(model, text(3, seed=12))
    generator = torch.Generator().manual_seed(5)
    turn, _ = torch.linalg.qr(torch.randn(16, 16, generator=generator))

    def turned(x: torch.Tensor, _: str) -> torch.Tensor:
        where = torch.rand(x.shape[:-1], generator=generator) < share
        where[:, :, 0] = False
        return torch.where(where.unsqueeze(-1), x @ turn, x)

    cache = damaged(state, turned)
    before = distance(KVState(cache), state)
    repair.repair_cache(cache)
    assert distance(KVState(cache), state) < 0.5 * before


def test_an_impossible_element_does_not_stay(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(2, seed=13))

    def jump(x: torch.Tensor, _: str) -> torch.Tensor:
        x[0, 1, 20, 3] = 40 * x.abs().max()
        return x

    cache = damaged(state, jump)
    before = distance(KVState(cache), state)
    repair.repair_cache(cache)
    assert distance(KVState(cache), state) < 0.01 * before


def test_a_page_that_is_too_loud_is_imputed_and_its_neighbours_hardly_move(
    calibrated: tuple[Any, GaussianRepair],
) -> None:
    model, operator = calibrated
    clean = stored(model, text(2, seed=9))
    loud = clean[1].V.clone()
    loud[:, :, 32:48] *= 16
    cache = clean.cache()
    write(cache, {1: (clean[1].K, loud)})
    operator.repair_cache(cache)
    mended = KVState(cache)
    assert (mended[1].V - clean[1].V).norm() < 0.1 * (loud - clean[1].V).norm()
    for after, before in zip(mended, clean, strict=True):
        assert (after.K - before.K).norm() < 0.06 * before.K.norm()


def test_heads_that_look_like_themselves_are_not_denoised(
    calibrated: tuple[Any, GaussianRepair],
) -> None:
    model, operator = calibrated
    stats, field = operator.stats, operator.field
    x = gather(list(stored(model, text(1, seed=13))))
    positions = torch.arange(LENGTH).unsqueeze(0)
    blocks = blocks_of(torch.ones_like(positions, dtype=torch.bool), positions)
    clean = table(x, torch.ones_like(positions, dtype=torch.bool), positions, blocks, stats, stats.mean)
    loud = replace(
        clean, x=clean.x + 0.7 * torch.randn(clean.x.shape, generator=torch.Generator().manual_seed(6))
    )
    every = torch.full((blocks[1], stats.layers, stats.groups), 0.7)
    assert (
        worth_taking(field, clean, every).float().mean() < 0.2
    )  # another text's: nothing tells which are right
    assert worth_taking(field, loud, every).float().mean() > 0.9


def test_a_first_position_of_which_nothing_is_left_becomes_a_sink_again(tiny_llama: Any) -> None:
    stats = calibrate(tiny_llama, text(96, seed=1), batch=32)
    L, G, d = stats.mean.shape
    log_norm = torch.tensor([0.0, 0.1, 2.0, 0.1])[:, None, None].expand(4, L, G)
    template = torch.full((L, G, d), 0.25)
    sink = SinkClass(template, 0.01 * torch.eye(d).expand(L, G, d, d), log_norm, torch.tensor(16))
    operator = make(replace(stats, sink=sink), tiny_llama, {"text": "random"})
    cache = stored(tiny_llama, text(1, seed=9)).cache()
    write(
        cache,
        {
            i: tuple(x.index_fill(2, torch.tensor([0, 5]), 0.0) for x in kv)
            for i, kv in enumerate(KVState(cache))
        },
    )
    operator.repair_cache(cache)
    values = gather(list(KVState(cache)))[0, :, :, G // 2 :] / stats.scale[:, G // 2 :, None]
    assert torch.allclose(values[0], template[:, G // 2 :], atol=1e-4)
    assert not torch.allclose(values[5], template[:, G // 2 :], atol=1e-2)


def test_what_is_repaired_does_not_depend_on_the_batch(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(3, seed=14))
    together = damaged(state, zeros(0.05))
    alone = [KVState(together).rows([row]).cache() for row in range(3)]
    repair.repair_cache(together)
    for row, cache in enumerate(alone):
        repair.repair_cache(cache)
        for one, other in zip(KVState(cache), KVState(together), strict=True):
            assert torch.equal(one.K[0], other.K[row]) and torch.equal(one.V[0], other.V[row])


def test_a_long_sequence_is_repaired_in_pieces(
    calibrated: tuple[Any, GaussianRepair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a piece is nothing but padding."""
    model, repair = calibrated
    monkeypatch.setattr("cachemedicpp.repair.gaussian.operator._TOKENS", 32)
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, :40] = 0
    state = stored(model, text(2, seed=15), mask)
    cache = damaged(state, zeros(0.05))
    before = distance(KVState(cache), state)
    report = repair.repair_cache(cache, mask)
    assert distance(KVState(cache), state) < before
    assert {block["last"] for block in report["blocks"]} >= {31, 63, 95}
    assert all(bool(x.isfinite().all()) for kv in KVState(cache) for x in kv)


def test_non_finite_numbers_never_survive(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(2, seed=9))

    def poison(x: torch.Tensor, _: str) -> torch.Tensor:
        x[0, 0, 3:9] = torch.nan
        x[1, 1, 40, 2] = torch.inf
        return x

    cache = damaged(state, poison)
    repair.repair_cache(cache)
    assert all(bool(x.isfinite().all()) for kv in KVState(cache) for x in kv)


def test_a_rotated_head_is_named_and_no_other(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(2, seed=10))
    turned, _ = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0)))
    cache = state.cache()
    K, V = state[1]
    K = K.clone()
    K[:, 1] = K[:, 1] @ turned
    write(cache, {1: (K, V)})
    told = repair.repair_cache(cache)["misfits"]
    assert {(m["layer"], m["tensor"], m["head"]) for m in told} <= {(1, "K", 1)}
    assert told or abs(float(repair.stats.mean[1, 1].norm())) < 1e-2  # a head without a shape has no misfit


def test_a_sequence_is_repaired_the_same_alone_and_in_a_padded_batch(
    calibrated: tuple[Any, GaussianRepair],
) -> None:
    model, repair = calibrated
    ids = text(1, length=80, seed=11)
    pad = 16
    wide = torch.cat((torch.zeros(1, pad, dtype=torch.long), ids), 1)
    mask = (torch.arange(96) >= pad).long().unsqueeze(0)
    batch = stored(model, torch.cat((text(1, seed=12), wide)), torch.cat((torch.ones(1, 96).long(), mask)))
    both = damaged(batch, noise(0.4))
    rows = KVState(both)
    cache = rows.rows([1]).cache()
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, pad:], layer.values[:, :, pad:]
    repair.repair_cache(cache)
    repair.repair_cache(both, torch.cat((torch.ones(1, 96).long(), mask)))
    for a, b, c in zip(KVState(both), KVState(cache), rows, strict=True):
        assert torch.allclose(a.K[1:, :, pad:], b.K, atol=1e-4) and torch.allclose(
            a.V[1:, :, pad:], b.V, atol=1e-4
        )
        assert torch.equal(a.K[1, :, :pad], c.K[1, :, :pad]), "padding is not touched"


def test_bfloat16_caches_are_repaired_and_stay_bfloat16(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    state = stored(model, text(2, seed=13))
    half = state.replace({i: (K.bfloat16(), V.bfloat16()) for i, (K, V) in enumerate(state)})
    clean = half.cache()
    assert repair.repair_cache(clean)["noisy"] == []
    cache = damaged(half, zeros(0.05))
    before = distance(KVState(cache), half)
    repair.repair_cache(cache)
    assert KVState(cache)[0].K.dtype == torch.bfloat16
    assert distance(KVState(cache), half) < 0.5 * before


def test_inline_and_at_rest_agree(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    ids, token = text(2, seed=15), text(2, length=3, seed=16)
    cache = damaged(stored(model, ids), noise(0.5))
    with torch.no_grad(), medic(model, repair=repair):
        inline = [model(input_ids=token[:, :1], past_key_values=cache).logits]
        inline.append(model(input_ids=token[:, 1:], past_key_values=cache).logits)
    mended = damaged(stored(model, ids), noise(0.5))
    repair.repair_cache(mended)
    with torch.no_grad():
        at_rest = model(input_ids=token, past_key_values=mended).logits
    assert torch.allclose(torch.cat(inline, 1), at_rest, atol=1e-4)


def test_it_is_the_same_after_saving_and_loading(
    calibrated: tuple[Any, GaussianRepair], tmp_path: Path
) -> None:
    model, repair = calibrated
    save(repair, tmp_path / "G")
    again = load_repair(tmp_path / "G", model)
    caches = [damaged(stored(model, text(1, seed=14)), noise(0.5)) for _ in range(2)]
    repair.repair_cache(caches[0])
    again.repair_cache(caches[1])
    assert distance(KVState(caches[0]), KVState(caches[1])) == 0.0


def test_other_shapes_and_short_texts_are_refused(tiny_llama: Any, tiny_gpt2: Any) -> None:
    with pytest.raises(UserError, match="calibration needs at least"):
        calibrate(tiny_llama, text(3))
    repair = make(calibrate(tiny_llama, text(32), batch=32), tiny_llama, {})
    with pytest.raises(UserError, match="2 KV heads"):
        repair.check(tiny_gpt2)
    with pytest.raises(UserError, match="was calibrated for 3 layers × 2 KV heads"):
        repair.repair_cache(stored(tiny_gpt2, text(1)).cache())


@settings(max_examples=15)
@given(seed=st.integers(0, 2**16), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_no_finite_cache_becomes_non_finite(tiny_llama: Any, seed: int, scale: float) -> None:
    repair = _shared(tiny_llama)
    generator = torch.Generator().manual_seed(seed)
    cache = damaged(
        stored(tiny_llama, text(1, length=40)), lambda x, _: scale * torch.randn(x.shape, generator=generator)
    )
    repair.repair_cache(cache)
    assert all(bool(x.isfinite().all()) for kv in KVState(cache) for x in kv)


_SHARED: list[GaussianRepair] = []


def _shared(model: Any) -> GaussianRepair:
    if not _SHARED:
        _SHARED.append(make(calibrate(model, text(32), batch=32), model, {}))
    return _SHARED[0]


def test_learned_positions_that_calibration_never_saw_are_left_alone(
    calibrated: tuple[Any, GaussianRepair],
) -> None:
    model, repair = calibrated
    cache = damaged(stored(model, text(2, LENGTH + 16, seed=9)), noise(0.6))
    before = KVState(cache)
    report = repair.repair_cache(cache)
    learned = model.config.model_type == "gpt2"
    assert report["beyond_calibration"] == (2 * 16 if learned else 0)
    untouched = all(
        torch.equal(a[:, :, LENGTH:], b[:, :, LENGTH:])
        for p, q in zip(before, KVState(cache), strict=True)
        for a, b in zip(p, q, strict=True)
    )
    assert untouched == learned
    assert distance(KVState(cache), before) > 0


def test_named_heads_need_more_than_one_misfitting_block() -> None:
    blocks = torch.ones(1, 4, 1, 2)
    blocks[0, 1, 0, 0] = 0.0
    blocks[0, 1:3, 0, 1] = 0.0
    assert fit.misfits(blocks).sum((0, 1, 2)).tolist() == [0, 2]


def test_padding_names_no_heads_and_leaves_nothing_non_finite(
    calibrated: tuple[Any, GaussianRepair],
) -> None:
    """A short row has blocks with no tokens in them, which fit nothing and say nothing."""
    model, repair = calibrated
    ids = text(2, seed=8)
    mask = torch.ones_like(ids)
    mask[1, :76] = 0
    clean = stored(model, ids, mask)
    cache = clean.cache()
    report = repair.repair_cache(cache, mask)
    assert report["misfits"] == [] and {block["decision"] for block in report["blocks"]} == {"left alone"}

    def spoil(x: torch.Tensor, _: str) -> torch.Tensor:
        x[1, :, 3, 5] = torch.nan
        return x

    cache = damaged(clean, spoil)
    repair.repair_cache(cache, mask)
    assert all(bool(x.isfinite().all()) for kv in KVState(cache) for x in kv)


def test_positions_with_nothing_left_are_counted(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated

    def page(x: torch.Tensor, _: str) -> torch.Tensor:
        x[:, :, 32:48] = 0.0
        return x

    clean = stored(model, text(2, seed=9))
    assert repair.repair_cache(clean.cache())["gone"] == 0
    assert repair.repair_cache(damaged(clean, page))["gone"] == 2 * 16


@pytest.mark.parametrize("shape", [(96,), (1, 96), (2, 50)])
def test_a_mask_must_fit_the_cache(calibrated: tuple[Any, GaussianRepair], shape: tuple[int, ...]) -> None:
    model, repair = calibrated
    with pytest.raises(UserError, match="attention_mask has shape"):
        repair.repair_cache(stored(model, text(2)).cache(), torch.ones(shape))


def test_a_damaged_operator_is_refused(tmp_path: Path, tiny_llama: Any) -> None:
    stats = _shared(tiny_llama).stats
    tensors = stats.tensors()
    tensors["covariance"] = tensors["covariance"].clone()
    tensors["covariance"][0, 0, 0, 0] = torch.nan
    with pytest.raises(UserError, match="damaged: covariance not finite"):
        type(stats).from_tensors(tensors)


def test_what_was_looked_at_before_is_not_looked_at_again(calibrated: tuple[Any, GaussianRepair]) -> None:
    """`since` repairs the same positions in the same way, and leaves all earlier ones as they are."""
    model, repair = calibrated
    cache = damaged(stored(model, text(1, seed=12)), zeros(0.05))
    before, whole = KVState(cache), KVState(cache).cache()
    repair.repair_cache(cache, since=70)
    repair.repair_cache(whole)
    for was, part, full in zip(before, KVState(cache), KVState(whole), strict=True):
        for x, y, z in zip(was, part, full, strict=True):
            assert torch.equal(x[..., :64, :], y[..., :64, :])  # blocks of 16 positions
            assert torch.allclose(y[..., 64:, :], z[..., 64:, :], atol=1e-5)


def test_noise_alone_is_told_from_wrong_elements() -> None:
    model = wide_llama(3, 2)
    stats = calibrate(model, text(96, seed=1), batch=32)
    field = Field(stats)

    def share(damage: Any) -> float:
        """The heads that are said to carry nothing but noise."""
        x = gather(list(KVState(damaged(stored(model, text(1, seed=13)), damage))))
        positions = torch.arange(LENGTH).unsqueeze(0)
        chosen = ~sinks.is_sink(x, stats)
        blocks = blocks_of(torch.ones_like(chosen), positions)
        tokens = table(x, chosen, positions, blocks, stats, stats.mean)
        every = torch.ones(blocks[1], stats.layers, dtype=torch.bool)
        lost = torch.zeros_like(tokens.x, dtype=torch.bool)
        return float(only_noise(field, tokens, every, lost).float().mean())

    def flips(x: torch.Tensor, _: str) -> torch.Tensor:
        hit = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.02
        return torch.where(hit, 8 * x, x)

    assert share(flips) < 0.05 and share(noise(0.5)) > 0.5


def test_faint_noise_that_ends_within_a_block_is_not_taken_for_wrong_vectors() -> None:
    model = wide_llama(4, 4)
    repair = make(calibrate(model, text(96, seed=1), batch=32), model, {"text": "random"})
    state = stored(model, text(3, seed=14))
    whole = noise(0.3)
    cache = damaged(state, lambda x, kind: torch.cat((whole(x, kind)[:, :, :56], x[:, :, 56:]), 2))
    before = KVState(cache)
    repair.repair_cache(cache)
    assert distance(KVState(cache), state) <= 1.01 * distance(before, state)
