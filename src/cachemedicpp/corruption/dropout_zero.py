"""Elements lost: set to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.config import CorruptionParams
from cachemedicpp.corruption.streams import Stream


@register("dropout_zero")
@dataclass(frozen=True)
class DropoutZero(Corruption):
    """Each element becomes 0 with probability `dropout_p`. Epsilon is that probability."""

    dropout_p: float

    @classmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        return cls(params.dropout_p)

    @classmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        return cls(fraction(epsilon))

    def severity(self) -> dict[str, float]:
        return {"dropout_p": self.dropout_p}

    @property
    def is_identity(self) -> bool:
        return self.dropout_p == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        lost = stream.uniform(*x.shape).to(x.device) < self.dropout_p
        return under(mask, x.masked_fill(lost, 0.0), x)
