"""A, B and C on keys before rotary: what a query reads equals the repaired cache built explicitly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cachemedicpp.cache.rotary import Rotary
from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator


def operator_for(model: Any, family: str) -> Any:
    config = RepairConfig.model_validate(
        {
            "family": family, "rank": 4, "protect_layers": (1,),
            "before_rotary": True,
        }
    )  # fmt: skip
    operator = build_operator(config, Geometry.of(model)).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in operator.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    operator.prepare(model, lambda: torch.zeros(0, 0))
    return operator


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def explicit(operator: Any, model: Any, query: Any, old: KV, new: KV, places: Any) -> torch.Tensor:
    """For each query: take the model's own rotation off, repair, put it on again, attend."""
    rotary = Rotary(model)
    B, H, Q, d = query.shape
    out = torch.zeros(B, Q, H, d)
    for b in range(B):
        U = rotary.unrotate(old.K[b : b + 1], places[b : b + 1], 1)
        for h in range(H):
            for i in range(Q):
                q = query[b : b + 1, h : h + 1, i : i + 1].expand(1, old.K.shape[1], 1, d)
                K, V = (
                    operator.form(1, tensor).mean_repair(x, q, operator.shift(1, tensor))
                    for tensor, x in (("K", U), ("V", old.V[b : b + 1]))
                )
                K = rotary.rotate(K, places[b : b + 1], 1)
                kv = h // (H // old.K.shape[1])
                keys = torch.cat((K[0, kv], new.K[b, kv, : i + 1]))
                values = torch.cat((V[0, kv], new.V[b, kv, : i + 1]))
                out[b, i, h] = ((query[b, h, i] @ keys.T) * 0.25).softmax(-1) @ values
    return out


@pytest.mark.parametrize("family", ["A", "B", "C"])
def test_reading_equals_building_the_repaired_cache(tiny_llama: Any, family: str) -> None:
    operator = operator_for(tiny_llama, family)
    query, old, new = draw(2, 4, 3, 16), KV(*draw(2, 2, 2, 7, 16)), KV(*draw(2, 2, 2, 3, 16))
    fast, _ = operator.attend(1, query, old, new, None, scaling=0.25)
    places = torch.arange(7).expand(2, -1)
    slow = explicit(operator, tiny_llama, query, old, new, places)
    torch.testing.assert_close(fast, slow, atol=1e-4, rtol=1e-3)
    plain = build_operator(RepairConfig(family="A", protect_layers=(1,)), Geometry.of(tiny_llama))
    assert "turning.theta" in operator.state_dict() and "turning.theta" not in plain.state_dict()


def test_padding_does_not_move_positions(tiny_llama: Any) -> None:
    operator = operator_for(tiny_llama, "A")
    query, old, new = draw(1, 4, 1, 16), KV(*draw(2, 1, 2, 7, 16)), KV(*draw(2, 1, 2, 1, 16))
    padded = KV(*(torch.cat((torch.ones(1, 2, 3, 16), x), 2) for x in old))
    mask = torch.tensor([[False] * 3 + [True] * 8]).view(1, 1, 1, -1)
    one, _ = operator.attend(1, query, old, new, None, scaling=0.25)
    two, _ = operator.attend(1, query, padded, new, mask, scaling=0.25)
    torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


def test_the_mean_over_queries_is_built_before_rotary_too(tiny_llama: Any) -> None:
    operator, rotary = operator_for(tiny_llama, "A"), Rotary(tiny_llama)
    query, kv = draw(1, 4, 1, 16), KV(*draw(2, 1, 2, 7, 16))
    places = torch.arange(7).expand(1, -1)
    q = query.reshape(1, 2, 2, 16)
    expected = operator.form(1, "K").mean_repair(rotary.unrotate(kv.K, places, 1), q)
    torch.testing.assert_close(
        operator.mean_repair(1, query, kv).K, rotary.rotate(expected, places, 1), atol=1e-5, rtol=1e-4
    )
