"""Damage and repair in caches with sliding windows, across the window's edge; caches that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.support.windowed import KINDS, WINDOW, windowed
from transformers import DynamicCache, QuantizedCache, StaticCache

from cachemedicpp import CorruptionFamily, Guard, KVState, heuristic, medic, sequence_keys
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption.config import CorruptionConfig
from cachemedicpp.repair.gaussian import GaussianRepair, calibrate
from cachemedicpp.repair.gaussian.store import make
from cachemedicpp.repair.safe import Safe
from homeostat.core.errors import UserError

LENGTHS = (WINDOW - 6, WINDOW, WINDOW + 1, 3 * WINDOW + 5)
LAYERS = (0, 1, 2)


def text(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 + 250 * torch.rand(rows, length, generator=generator) ** 3).long()


@torch.no_grad()
def prefill(model: Any, ids: torch.Tensor) -> Any:
    return model(input_ids=ids, use_cache=True).past_key_values


@torch.no_grad()
def decode(model: Any, cache: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of tokens that come one by one."""
    return torch.cat([model(input_ids=t, past_key_values=cache).logits for t in tokens.split(1, 1)], 1)


def family(model: Any) -> CorruptionFamily:
    config = CorruptionConfig.model_validate({"axes": {"head_mode": "all", "N_recent": 4}})
    return CorruptionFamily(config, Geometry.of(model), LAYERS, seed=5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("repair", [None, "smoothing"])
def test_damage_and_repair_inside_attention_are_those_at_rest(kind: str, length: int, repair: Any) -> None:
    """30 tokens are decoded, so that the window moves over everything that was damaged."""
    model = windowed(kind)
    ids, tokens = text(2, length), text(2, 30, seed=1)
    injection, keys = family(model).at("gaussian", 0.5), sequence_keys(ids, None)
    chosen = None if repair is None else heuristic(repair, LAYERS)
    rest = prefill(model, ids)
    injection.corrupt_cache(rest, keys)
    if chosen is not None:
        chosen.repair_cache(rest)
    clean = prefill(model, ids)
    with medic(model, repair=chosen, corruption=injection, keys=keys):
        inline = decode(model, clean, tokens)
    assert torch.allclose(inline, decode(model, rest, tokens), atol=1e-5)
    undamaged = decode(model, prefill(model, ids), tokens)
    assert not torch.allclose(inline, undamaged, atol=1e-3)


@pytest.fixture(scope="module", params=KINDS)
def calibrated(request: pytest.FixtureRequest) -> tuple[Any, GaussianRepair]:
    model = windowed(request.param)
    return model, make(calibrate(model, text(300, WINDOW - 1, seed=2), batch=64), model, {"text": "random"})


@pytest.mark.parametrize("length", LENGTHS)
def test_g_repairs_the_positions_that_all_layers_keep_and_no_others(
    calibrated: tuple[Any, GaussianRepair], length: int
) -> None:
    model, repair = calibrated
    cache = prefill(model, text(1, length, seed=3))
    clean = KVState(cache)
    first = clean.first
    spoiled = [x.clone() for kv in clean for x in kv]
    for x in spoiled:
        x[..., -4, 3] = torch.nan
    damaged = clean.cache()
    for layer in LAYERS:
        damaged.layers[layer].keys, damaged.layers[layer].values = spoiled[2 * layer : 2 * layer + 2]
    report = repair.repair_cache(damaged)
    assert report["older_than_window"] == first
    decided = {block["decision"] for block in report["blocks"] if block["last"] >= length - 4}
    assert decided <= {"repaired", "cannot judge"} and decided
    assert f"{report['blocks'][-1]['last']} " in str(report)
    for layer, (K, V) in enumerate(KVState(damaged)):
        older = first - clean.start(layer)
        for x, was in ((K, clean[layer].K), (V, clean[layer].V)):
            assert x.isfinite().all()
            assert torch.equal(x[..., :older, :], was[..., :older, :])


def test_calibration_refuses_windows_that_the_model_does_not_keep() -> None:
    with pytest.raises(UserError, match=f"sliding window keeps {WINDOW - 1}"):
        calibrate(windowed("gemma3"), text(300, WINDOW))


def test_g_inside_attention_equals_g_at_rest(calibrated: tuple[Any, GaussianRepair]) -> None:
    model, repair = calibrated
    ids, tokens = text(1, 2 * WINDOW, seed=4), text(1, 30, seed=1)
    injection, keys = family(model).at("gaussian", 0.5), sequence_keys(ids, None)
    rest = prefill(model, ids)
    injection.corrupt_cache(rest, keys)
    repair.repair_cache(rest)
    inline_cache = prefill(model, ids)
    with medic(model, repair=repair, corruption=injection, keys=keys):
        inline = decode(model, inline_cache, tokens)
    assert torch.allclose(inline, decode(model, rest, tokens), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_safe_keeps_clean_bits_and_undoes_what_is_impossible(kind: str) -> None:
    model = windowed(kind)
    ids, tokens = text(2, 2 * WINDOW), text(2, 4, seed=1)
    cache = prefill(model, ids)
    clean = [x.clone() for kv in KVState(cache) for x in kv]
    Safe(LAYERS).repair_cache(cache)
    assert all(
        torch.equal(x, y) for x, y in zip((x for kv in KVState(cache) for x in kv), clean, strict=True)
    )
    K = cache.layers[1].keys.clone()
    K[0, 0, -3, 2], K[1, 0, -5, 7] = torch.nan, 1e30
    cache.layers[1].keys = K
    with medic(model, repair="safe"):
        assert decode(model, cache, tokens).isfinite().all()
    with pytest.raises(UserError, match="'sfae'"), medic(model, repair="sfae"):  # type: ignore[arg-type]
        pass


def test_static_quantised_and_offloaded_caches_are_refused_by_name(tiny_llama: Any) -> None:
    static = StaticCache(config=tiny_llama.config, max_cache_len=32)
    with torch.no_grad():
        tiny_llama(input_ids=text(1, 4), past_key_values=static)
    offloaded = DynamicCache()
    offloaded.update(torch.zeros(1, 2, 4, 16), torch.zeros(1, 2, 4, 16), 0)
    offloaded.offloading = True
    for cache, named in ((static, "StaticLayer"), (offloaded, "offloaded")):
        for work in (
            lambda c: KVState(c),
            lambda c: Guard(tiny_llama).watch(c, torch.ones(1, 4).long()),
            lambda c: Safe((0,)).repair_cache(c),
        ):
            with pytest.raises(UserError, match=named):
                work(cache)


def test_a_quantised_cache_is_refused_by_the_name_of_its_layer(tiny_llama: Any) -> None:
    pytest.importorskip("optimum.quanto", reason="quantised caches of transformers need optimum-quanto")
    cache = QuantizedCache("quanto", tiny_llama.config, nbits=4)
    with torch.no_grad():
        tiny_llama(input_ids=text(1, 8), past_key_values=cache)
    with pytest.raises(UserError, match="QuantoQuantizedLayer"):
        KVState(cache)
