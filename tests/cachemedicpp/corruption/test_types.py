"""Each corruption type: values worked out by hand, identity at epsilon 0, more damage with more epsilon."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cachemedicpp.corruption import CORRUPTIONS, Site, Stream
from cachemedicpp.corruption import orthogonal_rotation as rotation_module
from cachemedicpp.corruption.bitflipish_sparse import BitflipishSparse
from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.corruption.contiguous_overwrite import ContiguousOverwrite
from cachemedicpp.corruption.dropout_zero import DropoutZero
from cachemedicpp.corruption.gaussian import Gaussian
from cachemedicpp.corruption.orthogonal_rotation import OrthogonalRotation, rotation
from cachemedicpp.corruption.quant_noise import QuantNoise
from homeostat.core.errors import UserError

SITE = Site(layer=0, tensor="K")
ALL = torch.ones(1, 1, dtype=torch.bool)


@dataclass(frozen=True)
class Given(Stream):
    """A stream whose draws are given, so that a result can be worked out by hand."""

    path: tuple[str | int, ...] = ()
    draws: dict[str, list[float]] = field(default_factory=dict)

    def _given(self, *shape: int) -> Tensor:
        return torch.tensor(self.draws[str(self.path[-1]) if self.path else ""]).view(shape)

    uniform = normal = _given


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(1, 1, -1)  # [H, T, d]


def test_gaussian_adds_noise_in_units_of_the_vector_rms() -> None:
    damaged = Gaussian(epsilon=0.5).apply(vector(3, 4), ALL, Given(draws={"": [1.0, -2.0]}), SITE)
    rms = 12.5**0.5  # sqrt((9 + 16) / 2)
    torch.testing.assert_close(damaged, vector(3 + 0.5 * rms, 4 - rms))


def test_dropout_zeroes_elements_below_the_probability() -> None:
    damaged = DropoutZero(dropout_p=0.02).apply(vector(3, 4), ALL, Given(draws={"": [0.019, 0.02]}), SITE)
    assert damaged.flatten().tolist() == [0, 4]


def test_rotation_multiplies_from_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    quarter = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    monkeypatch.setattr(rotation_module, "rotation", lambda d, seed: quarter)
    damaged = OrthogonalRotation(rotation_seed=999).apply(vector(1, 2), ALL, Given(draws={"": [0.5]}), SITE)
    assert damaged.flatten().tolist() == [-2, 1]


def test_the_rotation_matrix_is_orthogonal_and_fixed_by_its_seed() -> None:
    R = rotation(64, 999)
    torch.testing.assert_close(R @ R.T, torch.eye(64), atol=1e-5, rtol=0)
    assert torch.equal(R, rotation.__wrapped__(64, 999)) and not torch.equal(R, rotation(64, 998))


def test_bit_flips_change_sign_or_jump_up_or_down() -> None:
    draws = {"hit": [0.0, 0.0, 0.0, 0.9], "kind": [0.2, 0.6, 0.9, 0.1]}
    damaged = BitflipishSparse(bitflip_p=0.5, bitflip_eps_jump=8.0).apply(
        vector(1, -2, 0, 5), ALL, Given(draws=draws), SITE
    )
    # sign; up by 8·2; down by 8·1e-3 from zero; not hit
    torch.testing.assert_close(damaged, vector(-1, 14, -0.008, 5))


def test_three_bits_have_seven_levels() -> None:
    three = QuantNoise(quant_bits=3)  # levels -3 … 3
    damaged = three.apply(vector(3, -1.4, 0.6, 2.4), ALL, Given(), SITE)
    torch.testing.assert_close(damaged, vector(3, -1, 1, 2))


def test_two_bits_keep_the_largest_magnitude_and_zero() -> None:
    two = QuantNoise(quant_bits=2)
    torch.testing.assert_close(two.apply(vector(4, -1.9, 2.1, 0.5), ALL, Given(), SITE), vector(4, 0, 4, 0))


def test_quantisation_scales_each_head_by_itself() -> None:
    x = torch.tensor([[[8.0, 3.0]], [[1.0, 0.6]]])  # two heads
    damaged = QuantNoise().at(1.0).apply(x, torch.ones(2, 1, dtype=torch.bool), Given(), SITE)
    assert damaged.tolist() == [[[8.0, 0.0]], [[1.0, 1.0]]]


def test_overwrite_takes_the_donor_inside_the_window() -> None:
    x, donor = torch.zeros(1, 4, 1), torch.arange(1.0, 5.0).view(1, 4, 1)
    overwrite = ContiguousOverwrite(overwrite_window=(1, 3))
    time = overwrite.positions(torch.ones(4, dtype=torch.bool), AxesConfig())
    damaged = overwrite.apply(x, time[None], Given(), Site(0, "K", donor))
    assert damaged.flatten().tolist() == [0, 2, 3, 0]


def test_epsilon_overwrites_a_share_of_the_window_from_its_start() -> None:
    half = ContiguousOverwrite(overwrite_window=(1, 4)).at(0.5)
    assert half.positions(torch.ones(6, dtype=torch.bool), AxesConfig()).tolist() == [0, 1, 1, 0, 0, 0]


def test_overwrite_never_reaches_positions_the_time_mask_protects() -> None:
    time = torch.tensor([True, True, False, False])
    assert (
        ContiguousOverwrite(overwrite_window=(0, 4)).positions(time, AxesConfig()).tolist() == time.tolist()
    )


def test_a_window_time_mode_takes_precedence_over_the_overwrite_window() -> None:
    axes = AxesConfig(time_mode="window", window=(2, 4))
    time = torch.tensor([False, False, True, True, False])
    assert ContiguousOverwrite(overwrite_window=(0, 2)).positions(time, axes).tolist() == time.tolist()


def test_an_overwrite_window_outside_the_cache_is_refused() -> None:
    with pytest.raises(UserError, match=r"overwrite_window = \[16, 48\].*20 positions"):
        ContiguousOverwrite(overwrite_window=(16, 48)).positions(
            torch.ones(20, dtype=torch.bool), AxesConfig()
        )


@pytest.mark.parametrize("name", sorted(CORRUPTIONS))
def test_every_type_is_the_identity_at_epsilon_zero_and_harms_more_with_more(name: str) -> None:
    x = torch.randn(3, 60, 16, generator=torch.Generator().manual_seed(0))
    donor = torch.randn(3, 60, 16, generator=torch.Generator().manual_seed(1))
    damage = []
    for epsilon in (0.0, 0.02, 0.08, 0.16, 0.32, 0.64):
        corruption = CORRUPTIONS[name]().at(epsilon)
        assert corruption.is_identity == (epsilon == 0)
        time = corruption.positions(torch.ones(60, dtype=torch.bool), AxesConfig())
        mask = time.expand(3, 60)
        bad = corruption.apply(x, mask, Stream((0,)), Site(0, "K", donor)) if epsilon else x
        damage.append(float((bad - x).norm()))
    assert damage[0] == 0
    assert all(a < b for a, b in pairwise(damage)), damage


@given(
    name=st.sampled_from(sorted(CORRUPTIONS)),
    epsilon=st.floats(0, 2),
    scale=st.sampled_from([0.0, 1e-20, 1.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_no_type_touches_unmasked_vectors_or_makes_a_non_finite_value(
    name: str, epsilon: float, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 50, 8, generator=generator) * scale
    corruption = CORRUPTIONS[name]().at(epsilon)
    mask = torch.rand(2, 50, generator=generator) < 0.5
    mask &= corruption.positions(torch.ones(50, dtype=torch.bool), AxesConfig())
    if corruption.is_identity:
        return
    bad = corruption.apply(x, mask, Stream((seed,)), Site(0, "V", torch.ones(2, 50, 8)))
    assert torch.isfinite(bad).all()
    assert torch.equal(bad[~mask], x[~mask])
