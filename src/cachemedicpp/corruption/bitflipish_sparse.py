"""Rare large errors in single elements, as flipped bits in a floating-point number cause."""

from __future__ import annotations

from typing import Self

from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.masks import Probability
from cachemedicpp.corruption.streams import Stream

_FLOOR = 1e-3  # a jump from an element that is (nearly) zero is not itself zero
_MEANS = "Damage: a few numbers jump, as if a high bit had flipped."


@register("bitflipish_sparse", "sparse bit flips", _MEANS, weight=0.15, order=4)
class BitflipishSparse(Corruption):
    """With probability `bitflip_p` an element changes sign, or jumps by `± jump * max(|x|, 1e-3)`, half each.

    Epsilon is the probability.
    """

    bitflip_p: Probability = 0.0005
    bitflip_eps_jump: float = Field(8.0, ge=0.0)

    def at(self, epsilon: float) -> Self:
        return self.but(bitflip_p=fraction(epsilon))

    @property
    def is_identity(self) -> bool:
        return self.bitflip_p == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        hit = stream.at("hit").uniform(*x.shape).to(x.device) < self.bitflip_p
        kind = stream.at("kind").uniform(*x.shape).to(x.device)  # below 1/2: sign; then 1/4 up, 1/4 down
        size = self.bitflip_eps_jump * x.abs().clamp(min=_FLOOR)
        jumped = (x + size).where(kind < 0.75, x - size)
        return under(mask, (-x).where(kind < 0.5, jumped).where(hit, x), x)
