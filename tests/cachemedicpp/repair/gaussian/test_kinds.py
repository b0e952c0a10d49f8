"""Kinds of tokens, and the posterior mean about them: golden values and what a mixture must bring."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemedicpp.repair.gaussian import kinds, outliers
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.statistics import Statistics
from homeostat.core.errors import UserError


def statistics(centres: torch.Tensor, share: torch.Tensor, within: float) -> Statistics:
    """One layer, one key and one value of two elements: kinds `[K, 4]`, `within` the variance about each."""
    d = 2
    between = (centres.T * share) @ centres
    return Statistics(
        scale=torch.ones(1, 2),
        mean=torch.zeros(1, 2, d),
        covariance=(between + within * torch.eye(4)).view(1, 1, 4, 4),
        quiet=torch.ones(2, 1, 2),
        loudest=torch.tensor([[[3.0, 20.0]], [[3.0, 20.0]]]),
        strangest=torch.ones(2, 1, 2),
        glance=torch.ones(2, 1, 2),
        limit=torch.full((1, 2, d), 100.0),
        kinds=centres.view(-1, 1, 2, d),
        share=share,
        theta=torch.zeros(1, d),
        partner=torch.arange(d),
        count=torch.tensor(1000),
        length=torch.tensor(0),
    )


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        (0.5, 4 / 4.25),  # variance 1 is taken as 4
        (0.98**0.5, 2 / 2.98),  # as 2: the more noise, the less is left of a token to take off
        (2.0, 1 / 5),  # as it is
    ],
)
def test_with_one_kind_the_posterior_mean_is_a_widened_wiener_filter(level: float, kept: float) -> None:
    field = Field(statistics(torch.zeros(1, 4), torch.ones(1), 1.0))
    x = torch.tensor([[2.0, -1.0, 0.5, 4.0]])
    mended = field.denoiser(0, torch.full((1, 2, 2), level))(x)
    assert torch.allclose(mended, kept * x, atol=1e-3)


def test_a_channel_with_more_noise_is_trusted_less() -> None:
    field = Field(statistics(torch.zeros(1, 4), torch.ones(1), 1.0))
    x = torch.tensor([[2.0, -1.0, 0.5, 4.0]])
    noise = torch.tensor([0.0, 1.0, 4.0, 0.0])
    mended = field.denoiser(0, noise.view(1, 2, 2))(x)
    assert torch.allclose(mended, x / (1 + noise.square()), atol=1e-3)


def test_under_rounding_only_what_no_token_can_be_is_taken_off() -> None:
    """Variance 1 is taken as 32: a rare token keeps nearly all that is its own."""
    field = Field(statistics(torch.zeros(1, 4), torch.ones(1), 1.0))
    x = torch.tensor([[2.0, -1.0, 0.5, 4.0]])
    mended = field.denoiser(0, torch.full((1, 2, 2), 0.5), rounded=True)(x)
    assert torch.allclose(mended, 32 / 32.25 * x, atol=1e-3)


def test_each_token_is_drawn_to_its_own_kind() -> None:
    """Two kinds at ±10 of variance 0.1: noise of 2 takes a token to its kind, not to their common mean."""
    centres = torch.tensor([[10.0] * 4, [-10.0] * 4])
    field = Field(statistics(centres, torch.tensor([0.5, 0.5]), 0.1))
    x = centres + torch.tensor([[1.0, -1.0, 0.5, 0.0], [0.7, 0.0, 0.0, -1.4]])
    mended = field.denoiser(0, torch.full((1, 2, 2), 2.0))(x)
    expected = centres + (x - centres) * 0.1 / (0.1 + 4)
    assert torch.allclose(mended, expected, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), level=st.floats(1e-4, 3e-3))
def test_where_there_is_hardly_any_noise_hardly_anything_moves(seed: int, level: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(3, 4, generator=generator)
    share = torch.full((3,), 1 / 3)
    field = Field(statistics(centres - centres.mean(0), share, 1.0))
    x = 2 * torch.randn(8, 4, generator=generator)
    assert (field.denoiser(0, torch.full((1, 2, 2), level))(x) - x).abs().max() < 1e-2


def test_separate_clusters_are_found_and_ties_need_no_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    which = torch.randint(0, 2, (256,), generator=generator)
    marks = torch.tensor([[5.0, 0.0], [-5.0, 3.0]])[which] + 0.1 * torch.randn(256, 2, generator=generator)
    centres = kinds.find(marks)
    assert len(centres) == kinds.how_many(256) == 4
    found = kinds.nearest(marks, centres)
    for kind in range(4):
        assert len(set(which[found == kind].tolist())) <= 1  # no kind holds tokens of both clusters
    assert torch.equal(centres, kinds.find(marks))


def test_a_rare_token_gets_a_kind_of_its_own() -> None:
    """Two tokens in five hundred, and seven kinds: centres drawn evenly would miss them nearly always."""
    generator = torch.Generator().manual_seed(1)
    marks = torch.randn(500, 8, generator=generator)
    marks[[100, 300]] = 20.0
    found = kinds.nearest(marks, kinds.find(marks))
    assert (found == found[100]).nonzero().flatten().tolist() == [100, 300]


def test_a_text_of_one_token_over_and_over_is_one_kind() -> None:
    marks = torch.full((256, 3), 1.5)
    assert kinds.nearest(marks, kinds.find(marks)).tolist() == [0] * 256


def test_a_head_that_is_loud_on_clean_text_needs_a_louder_element() -> None:
    stats = statistics(torch.zeros(1, 4), torch.ones(1), 1.0)
    assert outliers.gross(stats).tolist() == [[outliers.GROSS, 25.0]]  # 1.25 times the loudest clean one


def test_an_operator_of_an_earlier_version_is_refused_in_one_line() -> None:
    tensors = statistics(torch.zeros(1, 4), torch.ones(1), 1.0).tensors()
    del tensors["kinds"]
    with pytest.raises(UserError, match="lacks kinds: an earlier version made it; calibrate again"):
        Statistics.from_tensors(tensors)
