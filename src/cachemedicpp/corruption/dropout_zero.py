"""Elements lost: set to zero."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.masks import Probability
from cachemedicpp.corruption.streams import Stream


@register("dropout_zero", "zeros", "Damage: random numbers are set to 0.", weight=0.20, order=2)
class DropoutZero(Corruption):
    """Each element becomes 0 with probability `dropout_p`. Epsilon is that probability."""

    dropout_p: Probability = 0.02

    def at(self, epsilon: float) -> Self:
        return self.but(dropout_p=fraction(epsilon))

    @property
    def is_identity(self) -> bool:
        return self.dropout_p == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        lost = stream.uniform(*x.shape).to(x.device) < self.dropout_p
        return under(mask, x.masked_fill(lost, 0.0), x)
