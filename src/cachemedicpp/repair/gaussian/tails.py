"""Rare false alarms from little text: the largest scores of clean text have a generalised Pareto tail.

Beyond a high threshold `u`, `P(z > u + y) = share · (1 + ξ y / β)^(-1/ξ)`, whatever the distribution
(Pickands, Balkema and de Haan). A tail is never taken to end (`ξ ≥ 0`): an end cannot be seen from so few.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from homeostat.core.errors import UserError

SHARE = 0.1  # of the scores are the tail
REACH = 10  # times rarer than one of the blocks seen: as far as a tail is continued


class Tail(NamedTuple):
    """A threshold, the share of scores beyond it, and the shape `ξ` and scale `β` of what is beyond."""

    threshold: float
    share: float
    shape: float
    scale: float

    def limit(self, rate: float) -> float:
        """The score that is exceeded at this rate."""
        odds = self.share / rate
        growth = math.log(odds) if self.shape == 0 else (odds**self.shape - 1) / self.shape
        return self.threshold + self.scale * growth


def fit(scores: Tensor) -> Tail:
    """The tail of `scores` `[N]`, by probability-weighted moments (Hosking and Wallis, 1987)."""
    threshold = float(torch.quantile(scores, 1 - SHARE))
    beyond = (scores[scores > threshold] - threshold).double().sort().values
    n = len(beyond)
    if n < 2:
        return Tail(threshold, SHARE, 0.0, 1e-6)
    place = (torch.arange(n, dtype=torch.float64) + 0.65) / n
    first, second = float(beyond.mean()), float(((1 - place) * beyond).mean())
    shape = 2 - first / (first - 2 * second)
    if not shape > 0:
        return Tail(threshold, n / len(scores), 0.0, first)
    return Tail(threshold, n / len(scores), shape, 2 * first * second / (first - 2 * second))


def blocks_for(rate: float) -> int:
    """Blocks of held-out text that a rate needs."""
    return math.ceil(round(1 / (REACH * rate), 3))


def least_rate(blocks: int) -> float:
    """The least rate that this many blocks support, rounded up to two digits."""
    digit = 10.0 ** (math.floor(-math.log10(REACH * blocks)) - 1)
    return math.ceil(1 / (REACH * blocks) / digit) * digit


def check_rate(rate: float, blocks: int) -> None:
    if not 0 < rate < 1:
        raise UserError(f"a false-alarm rate of {rate:g}: give one between 0 and 1")
    if blocks < (need := blocks_for(rate)):
        raise UserError(
            f"a false-alarm rate of {rate:g} needs {need} blocks of held-out text; this operator has seen "
            f"{blocks}: ask for {least_rate(blocks):.2g} or more, or calibrate with more --windows"
        )
