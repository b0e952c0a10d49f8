"""Vectors turned by one rotation: norms and angles among them survive, their meaning does not."""

from __future__ import annotations

from functools import lru_cache
from typing import Self

import torch
from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.streams import Stream

_MEANS = "Damage: vectors are turned into another direction of the same length."


@register("orthogonal_rotation", "rotation", _MEANS, weight=0.15, order=3)
class OrthogonalRotation(Corruption):
    """`x @ R` for a share of the masked vectors (all, unless epsilon says otherwise).

    Every sequence has an `R` of its own, drawn from `rotation_seed` and the sequence's stream: a repair that
    has learned to undo one rotation has learned nothing about the next.
    """

    rotation_seed: int = 999
    share: float = Field(1.0, exclude=True)

    def at(self, epsilon: float) -> Self:
        return self.but(share=fraction(epsilon))

    def drawn(self, stream: Stream) -> Self:
        return self.but(rotation_seed=stream.at("rotation", self.rotation_seed).seed)

    def drawn_record(self) -> dict[str, str]:
        return {"rotation": str(self.rotation_seed)}

    def severity(self) -> dict[str, float]:
        return {"share": self.share}

    @property
    def is_identity(self) -> bool:
        return self.share == 0

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        turned = x @ rotation(x.shape[-1], self.rotation_seed).to(x.device)
        touched = stream.uniform(*mask.shape).to(x.device) < self.share  # [H, T]
        return under(mask & touched, turned, x)


@lru_cache(maxsize=64)
def rotation(d: int, seed: int) -> Tensor:
    """`R` `[d, d]` from the QR of a seeded Gaussian matrix, made on the CPU.

    The signs of the triangular factor's diagonal are taken out, which makes `R` unique for the seed.
    """
    gaussian = torch.randn(d, d, generator=torch.Generator("cpu").manual_seed(seed), dtype=torch.float64)
    Q, R = torch.linalg.qr(gaussian)
    unique: Tensor = Q * R.diagonal().sign()
    return unique.float()
