"""Operator D: clean vectors keep their bits, damaged ones come nearer, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cachemedicpp.cache.state import KV, Geometry, KVState
from cachemedicpp.corruption.orthogonal_rotation import rotation
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Stored, layout, load_repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator, parameter_count
from cachemedicpp.repair.operators.store import save
from cachemedicpp.repair.operators.wiener import Wiener
from homeostat.core.errors import UserError

CONFIG = RepairConfig(family="D", protect_layers=(0, 2))


def text(rows: int, length: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 256, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def fitted(tiny_llama: Any) -> Any:
    operator = build_operator(CONFIG, Geometry.of(tiny_llama))
    operator.prepare(tiny_llama, lambda: text(32, 48, seed=1))
    return operator.requires_grad_(False)


def state(model: Any, ids: torch.Tensor) -> KVState:
    with torch.no_grad():
        return KVState(model(ids, use_cache=True).past_key_values)


def site(layer: int, kv: KV) -> Stored:
    return Stored(layer, *layout(kv.K.shape[2], len(kv.K), None, kv.K.device))


def test_the_filter_by_hand() -> None:
    form = Wiener(groups=1, d=2).requires_grad_(False)
    form.fit(torch.tensor([[1.0, 0.0]]), torch.diag(torch.tensor([4.0, 1.0])).unsqueeze(0))
    form.spare(torch.tensor([2.0]))
    form.slack.fill_(-50)  # exactly the calibrated threshold
    # (3, 0) - mean = (2, 0): m = (4/4 + 0) / 2 = 1/2. (1, 3): m = (0 + 9) / 2 = 4.5, of which 2.5 is too much
    y, changed = form(torch.tensor([[[3.0, 0.0], [1.0, 3.0]]]))
    assert changed.tolist() == [[False, True]]
    noise = 2.5 / ((1 / 4 + 1 / 1) / 2)
    torch.testing.assert_close(y[0, 1], torch.tensor([1.0, 3.0 * 1 / (1 + noise)]))


def test_an_operator_that_was_not_prepared_changes_nothing(tiny_llama: Any) -> None:
    operator = build_operator(CONFIG, Geometry.of(tiny_llama)).requires_grad_(False)
    kv = state(tiny_llama, text(2, 20, seed=2))[0]
    same = operator.repair_layer(kv, site(0, kv))
    assert torch.equal(same.K, kv.K) and torch.equal(same.V, kv.V)


def test_a_vector_below_the_threshold_keeps_its_bits(tiny_llama: Any, fitted: Any) -> None:
    clean = state(tiny_llama, text(4, 40, seed=3))
    for layer in fitted.layers:
        kv = clean[layer]
        filters = fitted.of(layer)
        U = fitted.turning.at(layer, site(layer, kv).positions).back(kv.K)
        near = filters.ordinary.distance(torch.cat((U, kv.V), 1)) <= filters.ordinary.bound
        assert near.float().mean() > 0.99
        after = fitted.repair_layer(kv, site(layer, kv))
        assert torch.equal(torch.cat(after, 1)[near], torch.cat(kv, 1)[near])


def test_a_rotation_it_has_not_seen_is_mostly_undone(tiny_llama: Any, fitted: Any) -> None:
    kv = state(tiny_llama, text(4, 40, seed=3))[2]
    turned = KV(*((x * 4) @ rotation(16, 77) for x in kv))  # far from what this random model stores
    after = fitted.repair_layer(turned, site(2, kv))
    for good, bad, repaired in zip(kv, turned, after, strict=True):
        assert (repaired - good).norm() < 0.5 * (bad - good).norm()


def test_at_rest_and_inside_attention_are_the_same_and_causal(tiny_llama: Any, fitted: Any) -> None:
    ids, after = text(2, 24, seed=4), text(2, 6, seed=5)
    damaged = state(tiny_llama, ids)
    damaged = damaged.replace({layer: (K * 3, V * 3) for layer, (K, V) in enumerate(damaged)})
    with torch.no_grad(), medic(tiny_llama, repair=fitted):
        inline = tiny_llama(after, past_key_values=damaged.cache()).logits
        changed = after.clone()
        changed[:, -1] = 9
        other = tiny_llama(changed, past_key_values=damaged.cache()).logits
    cache = damaged.cache()
    with torch.no_grad():
        report = fitted.repair_cache(cache)
        rest = tiny_llama(after, past_key_values=cache).logits
        bare = tiny_llama(after, past_key_values=damaged.cache()).logits
    assert all(change > 0 for change in report["relative_change"].values())
    torch.testing.assert_close(inline, rest, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(inline, bare, atol=1e-3)
    torch.testing.assert_close(inline[:, :-1], other[:, :-1], atol=1e-6, rtol=1e-5)


def test_padding_is_left_alone_and_moves_no_position(tiny_llama: Any, fitted: Any) -> None:
    kv = state(tiny_llama, text(1, 20, seed=6))[0]
    kv = KV(kv.K * 3, kv.V * 3)
    padded = KV(*(torch.cat((torch.full_like(x[:, :, :5], 50.0), x), 2) for x in kv))
    mask = torch.tensor([[0] * 5 + [1] * 20])
    both = fitted.repair_layer(padded, Stored(0, *layout(25, 1, mask, kv.K.device)))
    plain = fitted.repair_layer(kv, site(0, kv))
    for whole, part in zip(both, plain, strict=True):
        assert (whole[:, :, :5] == 50).all()
        torch.testing.assert_close(whole[:, :, 5:], part)


def test_what_is_no_number_goes_to_the_mean(tiny_llama: Any, fitted: Any) -> None:
    kv = state(tiny_llama, text(1, 20, seed=6))[2]
    V = kv.V.clone()
    V[0, 0, 3, 5], V[0, 1, 4, 2], V[0, 1, 5] = torch.nan, torch.inf, 1e30
    after = fitted.repair_layer(KV(kv.K, V), site(2, kv)).V
    assert torch.isfinite(after).all()
    torch.testing.assert_close(after[0, 0, 3], fitted.of(2).ordinary.mean[2, 0], atol=1e-3, rtol=1e-3)


def test_a_part_that_is_off_is_the_identity(tiny_llama: Any) -> None:
    operator = build_operator(CONFIG, Geometry.of(tiny_llama)).requires_grad_(False)
    operator.prepare(tiny_llama, lambda: text(32, 48, seed=1))
    assert len(operator.parts()) == 2 * 2 * 2
    kv = state(tiny_llama, text(2, 20, seed=7))[0]
    kv = KV(kv.K * 5, kv.V * 5)
    operator.switch("0.K.1", False)
    after = operator.repair_layer(kv, site(0, kv))
    assert torch.equal(after.K[:, 1], kv.K[:, 1]) and not torch.equal(after.K[:, 0], kv.K[:, 0])
    only_keys = build_operator(CONFIG.model_copy(update={"apply_to": "K"}), Geometry.of(tiny_llama))
    only_keys.prepare(tiny_llama, lambda: text(32, 48, seed=1))
    assert torch.equal(only_keys.repair_layer(kv, site(0, kv)).V, kv.V)


def test_it_survives_storage_bit_for_bit(tmp_path: Path, tiny_llama: Any, fitted: Any) -> None:
    save(fitted, tmp_path / "op", CONFIG, tiny_llama, "c" * 64, {"steps": 1})
    again: Any = load_repair(tmp_path / "op", tiny_llama)
    for (name, a), (_, b) in zip(fitted.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    kv = state(tiny_llama, text(2, 20, seed=8))[0]
    one, two = (op.repair_layer(KV(kv.K * 3, kv.V * 3), site(0, kv)) for op in (fitted, again))
    assert torch.equal(one.K, two.K) and torch.equal(one.V, two.V)


def test_learned_positions_are_judged_only_as_far_as_they_were_seen(tiny_gpt2: Any) -> None:
    operator = build_operator(CONFIG, Geometry.of(tiny_gpt2)).requires_grad_(False)
    operator.prepare(tiny_gpt2, lambda: text(16, 24, seed=1))
    kv = state(tiny_gpt2, text(1, 40, seed=2))[0]
    kv = KV(kv.K * 4, kv.V * 4)
    after = operator.repair_layer(kv, site(0, kv))
    assert torch.equal(after.K[:, :, 24:], kv.K[:, :, 24:]) and not torch.equal(after.K, kv.K)


def test_sizes_and_too_little_text(tiny_llama: Any) -> None:
    operator = build_operator(CONFIG, Geometry.of(tiny_llama))
    assert parameter_count(operator) == 2 * 2 * (2 * 2) * (16 + 2)  # layers, classes, head vectors, d + 2
    with pytest.raises(UserError, match="needs 8 windows of text to start from, not 3"):
        operator.prepare(tiny_llama, lambda: text(3, 24, seed=1))
