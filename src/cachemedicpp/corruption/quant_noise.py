"""Coarse storage: quantised and brought back."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.streams import Stream

_FINEST = 2.0**-24  # a step below float32's own resolution changes nothing
_MEANS = "Damage: numbers are rounded to very few bits."


@register("quant_noise", "coarse quantisation", _MEANS, weight=0.15, order=5)
class QuantNoise(Corruption):
    """Symmetric uniform quantisation; each head's scale comes from its largest masked magnitude.

    A `step` is one level relative to that magnitude: `1 / (2^(bits-1) - 1)`. Epsilon is the relative step;
    the bits it stands for, `1 + log2(1 + 1/epsilon)`, need not be whole, and 2 (epsilon 1) is the coarsest.
    """

    quant_bits: int = Field(8, ge=2, le=16)
    epsilon: float | None = Field(None, exclude=True)

    @property
    def step(self) -> float:
        return 1.0 / (2 ** (self.quant_bits - 1) - 1) if self.epsilon is None else fraction(self.epsilon)

    def at(self, epsilon: float) -> Self:
        return self.but(epsilon=epsilon)

    def severity(self) -> dict[str, float]:
        if self.is_identity:
            return {"step": 0.0}
        return {"step": self.step, "quant_bits": 1 + math.log2(1 + 1 / self.step)}

    @property
    def is_identity(self) -> bool:
        return self.step == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        if self.step < _FINEST:
            return x
        largest = x.abs().masked_fill(~mask.unsqueeze(-1), 0.0).amax((-2, -1), keepdim=True)  # [H, 1, 1]
        scale = (largest * self.step).clamp(min=1e-38)
        levels = math.floor(1 / self.step + 1e-6)
        return under(mask, (x / scale).round().clamp(-levels, levels) * scale, x)
