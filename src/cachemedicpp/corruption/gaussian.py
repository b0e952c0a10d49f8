"""Gaussian noise in proportion to each vector's own size."""

from __future__ import annotations

from typing import Self

from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, register, under
from cachemedicpp.corruption.streams import Stream


@register("gaussian", "Gaussian noise", "Damage: noise is added to every number.", weight=0.25, order=1)
class Gaussian(Corruption):
    """`x + epsilon * rms(x) * N(0, 1)`, with the RMS of each vector over `d`."""

    epsilon: float = Field(0.16, ge=0.0, description="noise level of `gaussian`, in units of a vector's RMS")

    def at(self, epsilon: float) -> Self:
        return self.but(epsilon=epsilon)

    @property
    def is_identity(self) -> bool:
        return self.epsilon == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        rms = x.square().mean(-1, keepdim=True).sqrt()  # [H, T, 1]
        noise = stream.normal(*x.shape).to(x.device)
        return under(mask, x + self.epsilon * rms * noise, x)
