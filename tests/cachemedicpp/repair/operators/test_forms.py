"""Operators A, B and C: formulas by hand, parameter counts, and what they can never do."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator, parameter_count
from cachemedicpp.repair.operators.gated import Gated
from cachemedicpp.repair.operators.shrinkage import Shrinkage
from homeostat.core.errors import UserError

GEOMETRY = Geometry(layers=6, heads=4, kv_heads=2, head_dim=16)


def filled(parameter: torch.nn.Parameter, *values: float) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(values).view(parameter.shape))


def test_option_a_by_hand() -> None:
    form = Gated(d=2, rank=1, heads=1)
    filled(form.W, 1, 0)
    filled(form.U, 0, 1)
    x, q = torch.tensor([[[[2.0, 3.0]]]]), torch.tensor([[[[5.0, 7.0]]]])
    # c = x·W = 2, g = sigmoid(0) = 1/2: (2, 3) + 2·½·(0, 1)
    torch.testing.assert_close(form.mean_repair(x, q), torch.tensor([[[[2.0, 4.0]]]]))
    filled(form.gate, math.sqrt(2) * math.log(3) / 5, 0)  # q G / √d = ln 3, so g = 3/4
    torch.testing.assert_close(form.mean_repair(x, q), torch.tensor([[[[2.0, 4.5]]]]))


def test_option_b_by_hand() -> None:
    form = Shrinkage(d=2, rank=1, heads=1, alpha_max=0.8)
    filled(form.basis, 5, 0)  # normalised to ±e1
    filled(form.strength, math.log(2))  # β = 1/2
    x, q = torch.tensor([[[[2.0, 3.0]]]]), torch.zeros(1, 1, 1, 2)
    # s = 0.8 · ½ = 0.4; 2 - 2 · ½ · (1 - 0.4)
    torch.testing.assert_close(form.mean_repair(x, q), torch.tensor([[[[1.4, 3.0]]]]))


def test_option_c_by_hand_is_a_with_a_shifted_gate() -> None:
    config = RepairConfig(family="C", protect_layers=(1, 4), rank=1, apply_to="K")
    operator: Any = build_operator(config, Geometry(layers=6, heads=1, kv_heads=1, head_dim=2))
    filled(operator.forms["K"].W, 1, 0)
    filled(operator.forms["K"].U, 0, 1)
    filled(operator.layer_embedding["K"], 0, math.log(3))  # layers 1 and 4
    kv, q = KV(torch.tensor([[[[2.0, 3.0]]]]), torch.ones(1, 1, 1, 2)), torch.zeros(1, 1, 1, 2)
    torch.testing.assert_close(operator.mean_repair(1, q, kv).K, torch.tensor([[[[2.0, 4.0]]]]))
    torch.testing.assert_close(operator.mean_repair(4, q, kv).K, torch.tensor([[[[2.0, 4.5]]]]))
    assert operator.mean_repair(4, q, kv).V is kv.V


@pytest.mark.parametrize("tensors", ["K", "V", "KV"])
def test_parameter_counts_are_as_specified(tensors: str) -> None:
    d, r, L, H = 16, 4, 2, 2
    n = len(tensors)
    counts = {
        "A": L * n * (3 * d * r + r),
        "B": L * n * (2 * d * r + 2 * r),
        "C": n * ((3 * d * r + r) + L * r + H * r),
    }
    for family, count in counts.items():
        config = RepairConfig.model_validate(
            {
                "family": family, "protect_layers": (1, 2), "rank": r, "apply_to": tensors,
                "head_embedding": family == "C",
            }
        )  # fmt: skip
        assert parameter_count(build_operator(config, GEOMETRY)) == count, family


def explicit_attention(
    operator: Any, layer: int, query: Any, old: KV, new: KV, scaling: float
) -> torch.Tensor:
    """The slow and obvious way: for each query, build the repaired cache it sees, then attend."""
    B, H, Q, d = query.shape
    groups = H // old.K.shape[1]
    out = torch.zeros(B, Q, H, d)
    for b in range(B):
        for h in range(H):
            for i in range(Q):
                q = query[b : b + 1, h : h + 1, i : i + 1]
                one = KV(*(x[b : b + 1] for x in old))
                heads = q.expand(1, H, 1, d)  # every head asks this query
                repaired = operator.mean_repair(layer, heads, one)
                kv = h // groups
                K = torch.cat((repaired.K[0, kv], new.K[b, kv, : i + 1]))
                V = torch.cat((repaired.V[0, kv], new.V[b, kv, : i + 1]))
                out[b, i, h] = ((q.flatten() @ K.T) * scaling).softmax(-1) @ V
    return out


@pytest.mark.parametrize("family", ["A", "B", "C"])
def test_reading_through_the_query_equals_building_the_repaired_cache(family: str) -> None:
    config = RepairConfig.model_validate({"family": family, "rank": 4, "protect_layers": (1,)})
    operator = build_operator(config, GEOMETRY).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in operator.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    query = torch.randn(2, 4, 3, 16, generator=generator)
    old = KV(*torch.randn(2, 2, 2, 7, 16, generator=generator))
    new = KV(*torch.randn(2, 2, 2, 3, 16, generator=generator))
    fast, _ = operator.attend(1, query, old, new, None, scaling=0.25)
    torch.testing.assert_close(
        fast, explicit_attention(operator, 1, query, old, new, 0.25), atol=1e-5, rtol=1e-4
    )


@given(seed=st.integers(0, 500), alpha=st.floats(0.01, 0.99), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_option_b_never_amplifies_in_its_basis(seed: int, alpha: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    form = Shrinkage(d=8, rank=3, heads=2, alpha_max=alpha).requires_grad_(False)
    for parameter in form.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    x, q = torch.randn(2, 1, 2, 5, 8, generator=generator)
    Q, _ = torch.linalg.qr(form.basis)
    before, after = x @ Q, form.mean_repair(x, q) @ Q
    assert (after.abs() <= before.abs() + 1e-5).all()
    s = form.modulation(q) + 1
    assert (s >= -1e-6).all() and (s <= alpha + 1e-6).all()


@given(
    family=st.sampled_from(["A", "B", "C"]),
    seed=st.integers(0, 200),
    size=st.sampled_from([0.0, 1e-20, 1.0, 1e4]),
    weight=st.sampled_from([0.0, 1.0, 50.0]),
)
def test_no_operator_makes_a_non_finite_value_from_finite_input(
    family: str, seed: int, size: float, weight: float
) -> None:
    config = RepairConfig.model_validate({"family": family, "rank": 4, "protect_layers": (1,)})
    operator = build_operator(config, GEOMETRY, seed).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in operator.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * weight)
    query = torch.randn(1, 4, 3, 16, generator=generator) * size
    old = KV(*(torch.randn(2, 1, 2, 5, 16, generator=generator) * size))
    new = KV(*(torch.randn(2, 1, 2, 3, 16, generator=generator) * size))
    out, _ = operator.attend(1, query, old, new, None, scaling=0.25)
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(x).all() for x in operator.mean_repair(1, query, old))


def test_gradients_reach_every_parameter_of_b_at_its_start() -> None:
    form = Shrinkage(d=8, rank=3, heads=1, alpha_max=0.9)
    x, q = torch.randn(2, 1, 1, 5, 8)
    form.mean_repair(x, q).square().sum().backward()
    assert form.strength.grad is not None and form.strength.grad.abs().min() > 1e-4


def test_the_same_seed_starts_the_same_and_leaves_torchs_own_stream_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one, two = (build_operator(RepairConfig(protect_layers=(1,)), GEOMETRY, seed=4) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_impossible_operators_are_refused() -> None:
    with pytest.raises(UserError, match="rank = 17 is above the model's head dimension 16"):
        build_operator(RepairConfig(rank=17, protect_layers=(1,)), GEOMETRY)
    with pytest.raises(UserError, match=r"protect_layers = \[2, 9\].*6 layers"):
        build_operator(RepairConfig(protect_layers=(2, 9)), GEOMETRY)
    with pytest.raises(UserError, match="only 6 layers"):
        build_operator(RepairConfig(protect_layers="mid:7"), GEOMETRY)
    with pytest.raises(UserError, match="'G' is not trained"):
        build_operator(RepairConfig(family="G"), GEOMETRY)
