"""Gaussian noise in proportion to each vector's own size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, register, under
from cachemedicpp.corruption.config import CorruptionParams
from cachemedicpp.corruption.streams import Stream


@register("gaussian")
@dataclass(frozen=True)
class Gaussian(Corruption):
    """`x + epsilon * rms(x) * N(0, 1)`, with the RMS of each vector over `d`."""

    epsilon: float

    @classmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        return cls(params.epsilon)

    @classmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        return cls(epsilon)

    def severity(self) -> dict[str, float]:
        return {"epsilon": self.epsilon}

    @property
    def is_identity(self) -> bool:
        return self.epsilon == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        rms = x.square().mean(-1, keepdim=True).sqrt()  # [H, T, 1]
        noise = stream.normal(*x.shape).to(x.device)
        return under(mask, x + self.epsilon * rms * noise, x)
