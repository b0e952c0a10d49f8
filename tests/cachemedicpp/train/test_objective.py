"""The loss terms: values worked out by hand."""

from __future__ import annotations

import math

import torch

from cachemedicpp.cache.state import KV
from cachemedicpp.train.objective import (
    contraction_loss,
    contraction_ratios,
    identity_loss,
    kd_loss,
    weight_penalty,
)


def kv(*keys: float, value: float = 0.0) -> KV:
    K = torch.tensor(keys).view(1, 1, 1, -1)
    return KV(K, torch.full_like(K, value))


def test_distillation_is_the_kl_at_the_temperature_averaged_over_positions() -> None:
    clean = torch.zeros(1, 2, 2)
    repaired = torch.tensor([[[2 * math.log(3), 0.0], [0.0, 0.0]]])  # at T = 2: (3/4, 1/4), then equal
    expected = (0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)) / 2
    torch.testing.assert_close(kd_loss(clean, repaired, T=2.0), torch.tensor(expected))


def test_identity_loss_sums_relative_squared_changes_over_layers() -> None:
    clean = {3: kv(3.0, 4.0), 7: kv(0.0, 2.0, value=0.0)}
    repaired = {3: kv(4.0, 4.0), 7: kv(0.0, 2.0)}
    torch.testing.assert_close(identity_loss(clean, repaired), torch.tensor(1 / 25))


def test_each_form_of_the_identity_loss_weighs_keys_and_values_alike() -> None:
    clean = {0: KV(torch.full((1, 1, 1, 2), 10.0), torch.full((1, 1, 1, 2), 1.0))}
    repaired = {0: KV(clean[0].K * 1.1, clean[0].V * 1.1)}  # a tenth of each
    torch.testing.assert_close(identity_loss(clean, repaired, "each"), torch.tensor(0.01))
    values_only = {0: KV(clean[0].K, clean[0].V * 1.1)}
    torch.testing.assert_close(identity_loss(clean, values_only, "each"), torch.tensor(0.005))
    torch.testing.assert_close(identity_loss(clean, values_only, "joint"), torch.tensor(0.02 / 202))


def test_rho_is_distance_after_over_distance_before() -> None:
    clean, corrupted, repaired = {0: kv(0.0, 1.0)}, {0: kv(2.0, 1.0)}, {0: kv(0.5, 1.0)}
    torch.testing.assert_close(contraction_ratios(clean, corrupted, repaired), torch.tensor([0.25]))


def test_contraction_is_punished_above_alpha_only() -> None:
    torch.testing.assert_close(contraction_loss(torch.tensor([0.5, 1.3]), 0.8), torch.tensor(0.125))


def test_a_state_that_was_not_touched_has_no_ratio() -> None:
    clean = {0: kv(0.0, 1.0)}
    rho = contraction_ratios(clean, clean, {0: kv(0.1, 1.0)})
    assert rho.numel() == 0
    assert float(contraction_loss(rho, 0.8)) == 0.0


def test_the_ratio_at_a_perfect_repair_has_a_finite_gradient() -> None:
    K = torch.tensor([[[[0.0, 1.0]]]], requires_grad=True)
    rho = contraction_ratios({0: kv(0.0, 1.0)}, {0: kv(2.0, 1.0)}, {0: KV(K, torch.zeros(1, 1, 1, 2))})
    rho.sum().backward()
    assert K.grad is not None and torch.isfinite(K.grad).all()


def test_weight_penalty_is_the_squared_norm_of_all_parameters() -> None:
    assert float(weight_penalty([torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])])) == 14.0
