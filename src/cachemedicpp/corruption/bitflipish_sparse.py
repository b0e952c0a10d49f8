"""Rare large errors in single elements, as flipped bits in a floating-point number cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.config import CorruptionParams
from cachemedicpp.corruption.streams import Stream

_FLOOR = 1e-3  # a jump from an element that is (nearly) zero is not itself zero


@register("bitflipish_sparse")
@dataclass(frozen=True)
class BitflipishSparse(Corruption):
    """With probability `bitflip_p` an element changes sign, or jumps by `± jump * max(|x|, 1e-3)`, half each.

    Epsilon is the probability.
    """

    bitflip_p: float
    jump: float

    @classmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        return cls(params.bitflip_p, params.bitflip_eps_jump)

    @classmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        return cls(fraction(epsilon), params.bitflip_eps_jump)

    def severity(self) -> dict[str, float]:
        return {"bitflip_p": self.bitflip_p, "bitflip_eps_jump": self.jump}

    @property
    def is_identity(self) -> bool:
        return self.bitflip_p == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        hit = stream.at("hit").uniform(*x.shape).to(x.device) < self.bitflip_p
        kind = stream.at("kind").uniform(*x.shape).to(x.device)  # below 1/2: sign; then 1/4 up, 1/4 down
        size = self.jump * x.abs().clamp(min=_FLOOR)
        jumped = (x + size).where(kind < 0.75, x - size)
        return under(mask, (-x).where(kind < 0.5, jumped).where(hit, x), x)
