"""The prior given the tokens, on made-up numbers: regression, scores and tails."""

from __future__ import annotations

import math

import pytest
import torch

from cachemedicpp.repair.gaussian import regress, tails
from cachemedicpp.repair.gaussian.prior import features
from homeostat.core.errors import UserError


def test_regression_recovers_weights_residuals_and_leverage() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat((torch.randn(4000, 6, generator=generator), torch.ones(4000, 1)), 1)
    weight = torch.randn(7, 2 * 2 * 3, generator=generator)
    y = (x @ weight + 0.1 * torch.randn(4000, 12, generator=generator)).view(-1, 2, 2, 3)
    gram = regress.Gram(7, y.shape[1:])
    for part in range(0, 4000, 1000):  # in pieces, as a stream
        gram.add(x[part : part + 1000], y[part : part + 1000])
    prior = gram.solve()
    shrink = 4000 / (4000 + regress.PENALTY)  # of weights of unit-variance features
    assert torch.allclose(prior.weight.flatten(1)[:6], shrink * weight[:6], atol=0.03)
    spread = prior.residual.diagonal(dim1=-2, dim2=-1)
    assert float(spread.min()) > 0.009 and float(spread.max()) < 0.012
    far = torch.zeros(1, 7)
    far[0, 0] = 100.0
    leverage = float(far @ prior.inverse @ far.T)
    assert leverage == pytest.approx(100**2 / (4000 + regress.PENALTY), rel=0.1)


def test_a_common_cause_moves_no_unit_and_a_stranger_moves_one() -> None:
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(2000, 1, generator=generator)
    missing = common + 0.3 * torch.randn(2000, 12, generator=generator)
    form = regress.given_the_others(missing)
    unusual = torch.full((1, 12), 3.0)
    one = torch.zeros(1, 12)
    one[0, 4] = 3.0
    assert float((unusual @ form).abs().max()) < 3.0
    scores = (one @ form)[0]
    assert int(scores.argmax()) == 4 and float(scores[4]) > 6.0


def test_the_limit_of_an_exponential_tail_is_its_quantile() -> None:
    scores = -torch.rand(20_000, generator=torch.Generator().manual_seed(0)).log()
    limit = tails.fit(scores).limit(1e-4)
    assert limit == pytest.approx(math.log(1e4), rel=0.2)


def test_a_tail_is_never_taken_to_end() -> None:
    scores = torch.linspace(0, 1, 1000)  # uniform: the true tail ends at 1
    tail = tails.fit(scores)
    assert tail.shape == 0.0 and tail.limit(1e-5) > 1.0


@pytest.mark.parametrize(("rate", "need"), [(1e-2, 10), (1e-4, 1000), (1e-6, 100_000)])
def test_a_rate_needs_a_tenth_of_its_inverse_in_blocks(rate: float, need: int) -> None:
    assert tails.blocks_for(rate) == need
    tails.check_rate(rate, need)
    with pytest.raises(UserError, match=f"needs {need} blocks"):
        tails.check_rate(rate, need - 1)


def test_features_are_the_token_and_the_one_before_and_padding_is_nothing() -> None:
    embedding = torch.tensor([[3.0, 4.0], [0.0, 2.0], [1.0, 1.0]])
    real = torch.tensor([[False, True, True]])
    x = features(embedding, torch.tensor([[0, 1, 2]]), real)[0]
    assert x[0].tolist() == [0, 0, 0, 0, 1]
    assert torch.allclose(x[1], torch.tensor([0, math.sqrt(2), 0, 0, 1]))
    assert torch.allclose(x[2], torch.tensor([1, 1, 0, math.sqrt(2), 1]))
