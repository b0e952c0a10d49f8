"""Operator E: it leaves clean caches alone, mends what it was shown, sees no later token, and is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cachemedicpp.cache.state import Geometry, KVState, write
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import load_repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator
from cachemedicpp.repair.operators.network import rounding_step
from cachemedicpp.repair.operators.states import collect, join, split
from cachemedicpp.repair.operators.store import save
from homeostat.core.errors import UserError

CONFIG = RepairConfig.model_validate({"family": "E", "protect_layers": (0, 2), "width": 24})


def text(rows: int, length: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 256, (rows, length), generator=torch.Generator().manual_seed(seed))


def started(model: Any, **settings: Any) -> Any:
    config = CONFIG.model_copy(update=settings)
    operator = build_operator(config, Geometry.of(model))
    operator.prepare(model, lambda: torch.zeros(0, 0))
    operator.start(collect(model, text(32, 40, seed=1), operator.layers))
    return operator.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def operator(tiny_llama: Any) -> Any:
    return started(tiny_llama)


def state(model: Any, ids: torch.Tensor) -> KVState:
    with torch.no_grad():
        return KVState(model(ids, use_cache=True).past_key_values)


def test_states_are_those_of_the_cache_and_can_be_split_and_joined(tiny_llama: Any) -> None:
    ids = text(3, 20, seed=2)
    states = collect(tiny_llama, ids, (0, 2))
    clean = state(tiny_llama, ids[:, :-4])
    for layer, kv in states.of([0, 1, 2]).items():
        assert torch.allclose(kv.K, clean[layer].K, atol=1e-5) and torch.allclose(
            kv.V, clean[layer].V, atol=1e-5
        )
    assert torch.equal(join((0, 2), split((0, 2), states.x)), states.x)
    assert states.queries.shape[:2] == (3, 2)


def test_before_training_logits_of_a_clean_cache_hardly_change(tiny_llama: Any, operator: Any) -> None:
    clean = state(tiny_llama, text(2, 30, seed=3))
    cache = clean.cache()
    operator.repair_cache(cache)
    with torch.no_grad():
        ask = torch.tensor([[7], [9]])
        before = tiny_llama(ask, past_key_values=clean.cache()).logits
        after = tiny_llama(ask, past_key_values=cache).logits
    assert float((after - before).abs().max()) <= 1e-4


def test_what_the_gates_do_not_open_for_keeps_its_bits_in_any_number_format(
    tiny_llama: Any, operator: Any
) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        clean = state(tiny_llama, text(2, 30, seed=4))
        low = clean.replace({i: (k.to(dtype), v.to(dtype)) for i, (k, v) in enumerate(clean)})
        cache = low.cache()
        write(cache, {0: (low[0].K, low[0].V.clone().index_fill_(2, torch.tensor([12]), 50.0))})
        operator.repair_cache(cache)
        mended = KVState(cache)
        assert not torch.equal(mended[0].V[:, :, 12], torch.full_like(mended[0].V[:, :, 12], 50.0))
        rest = [t for t in range(30) if t != 12]
        assert all(torch.equal(mended[i].K[:, :, rest], low[i].K[:, :, rest]) for i in range(len(low)))
        assert torch.equal(mended[1].V, low[1].V)  # not protected


def test_a_later_token_changes_no_earlier_one_and_padding_changes_nothing(
    tiny_llama: Any, operator: Any
) -> None:
    clean = state(tiny_llama, text(1, 30, seed=5))
    noisy = clean.replace({0: (clean[0].K, clean[0].V + torch.randn_like(clean[0].V))})
    later = noisy.replace({0: (noisy[0].K.clone().index_fill_(2, torch.tensor([29]), 9.0), noisy[0].V)})
    one, two = noisy.cache(), later.cache()
    operator.repair_cache(one)
    operator.repair_cache(two)
    assert torch.equal(KVState(one)[0].V[:, :, :29], KVState(two)[0].V[:, :, :29])


def test_attached_and_at_rest_give_the_same_logits(tiny_llama: Any, operator: Any) -> None:
    clean = state(tiny_llama, text(1, 30, seed=6))
    noisy = clean.replace({2: (clean[2].K, clean[2].V + 3 * torch.randn_like(clean[2].V))})
    ask = torch.tensor([[7]])
    at_rest = noisy.cache()
    operator.repair_cache(at_rest)
    with torch.no_grad():
        expected = tiny_llama(ask, past_key_values=at_rest).logits
        with medic(tiny_llama, repair=operator):
            found = tiny_llama(ask, past_key_values=noisy.cache()).logits
    torch.testing.assert_close(found, expected)


def test_apply_to_leaves_the_other_tensor_alone(tiny_llama: Any) -> None:
    only_values = started(tiny_llama, apply_to="V")
    clean = state(tiny_llama, text(1, 30, seed=7))
    noisy = clean.replace({0: (clean[0].K * 20, clean[0].V * 20)})
    cache = noisy.cache()
    only_values.repair_cache(cache)
    assert torch.equal(KVState(cache)[0].K, noisy[0].K) and not torch.equal(KVState(cache)[0].V, noisy[0].V)


def test_a_stored_operator_that_failed_validation_is_the_identity(
    tmp_path: Path, tiny_llama: Any, operator: Any
) -> None:
    clean = state(tiny_llama, text(1, 30, seed=8))
    noisy = clean.replace({0: (clean[0].K, clean[0].V * 20)})
    for useful in (True, False):
        operator.useful.fill_(useful)
        folder = tmp_path / str(useful)
        save(operator, folder, CONFIG, tiny_llama, "0" * 64, {})
        cache = noisy.cache()
        load_repair(folder, tiny_llama).repair_cache(cache)
        assert torch.equal(KVState(cache)[0].V, noisy[0].V) is not useful
    operator.useful.fill_(True)


def test_a_code_wider_than_the_text_supports_is_refused(tiny_llama: Any) -> None:
    with pytest.raises(UserError, match=r"repair\.width"):
        started(tiny_llama, width=2000)


def test_numbers_that_were_rounded_stay_within_what_was_rounded_to_them(
    tiny_llama: Any, operator: Any
) -> None:
    clean = state(tiny_llama, text(1, 30, seed=9))
    steps = {layer: float(clean[layer].V.abs().max()) / 7 for layer in (0, 2)}
    coarse = clean.replace({i: (clean[i].K, (clean[i].V / step).round() * step) for i, step in steps.items()})
    cache = coarse.cache()
    operator.repair_cache(cache)
    for layer, step in steps.items():
        moved = (KVState(cache)[layer].V - coarse[layer].V).abs()
        enough = (coarse[layer].V != 0).sum(-1) >= 3
        assert 0 < float(moved[enough].max()) <= step / 2 * (1 + 1e-4)


def test_a_step_is_found_in_rounded_vectors_and_in_no_others() -> None:
    x = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    assert not rounding_step(x)[1].any() and not rounding_step(torch.zeros(1, 64))[1].any()
    rounded = (x / 0.3).round() * 0.3
    found, which = rounding_step(rounded)
    assert torch.allclose(found, torch.full_like(found, 0.3), rtol=1e-4) and which.all()
    rounded[3] = 0
    assert rounding_step(rounded)[1].all(), "beside rounded vectors, one of zeros was rounded"


def test_with_their_repair_switched_off_rounded_vectors_keep_their_bits(tiny_llama: Any) -> None:
    operator = started(tiny_llama)
    operator.switch("rounded", False)
    clean = state(tiny_llama, text(1, 30, seed=9))
    rounded = [(x / 0.5).round() * 0.5 for x in clean[0]]
    cache = clean.replace({0: tuple(rounded)}).cache()
    operator.repair_cache(cache)
    enough = (rounded[1] != 0).sum(-1) >= 3
    assert torch.equal(KVState(cache)[0].V[enough], rounded[1][enough])


def test_validation_can_raise_the_threshold_of_the_gates(tiny_llama: Any) -> None:
    operator = started(tiny_llama)
    for part, left in zip(operator.parts()[1:], (0.7, 0.9, 0.97), strict=True):
        operator.switch(part, False)
        assert float(operator.sure.min()) == pytest.approx(left)
    operator.switch("0.7", True)
    assert float(operator.sure.min()) == pytest.approx(0.7)
