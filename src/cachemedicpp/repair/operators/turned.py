"""Stored keys without the rotation of their positions, for operators that work before rotary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cachemedicpp.cache.rotation import Pairs, Turn
from cachemedicpp.cache.state import Geometry


class Turning(nn.Module):
    """The rotary angles of a model, stored with the operator. Until they are learned, nothing turns."""

    theta: Tensor  # [L, d]
    partner: Tensor  # [d]

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.register_buffer("theta", torch.zeros(geometry.layers, geometry.head_dim))
        self.register_buffer("partner", torch.arange(geometry.head_dim))

    def learn(self, model: Any) -> None:
        pairs = Pairs.probe(model, *self.theta.shape)
        self.theta.copy_(pairs.theta)
        self.partner.copy_(pairs.partner)

    def at(self, layer: int, positions: Tensor) -> Turned:
        """The rotation of a layer's keys at positions `[B, T]`."""
        alike = positions.shape[0] == 1 or positions.stride(0) == 0  # every row has the same numbers
        where = positions[0] if alike else positions.flatten()
        return Turned(Pairs(self.theta, self.partner).at(where, layer), alike)


@dataclass(frozen=True)
class Turned:
    """`back` takes the rotation off keys `[B, H, T, …, d]`, `turn` puts it on again."""

    rotation: Turn
    alike: bool

    def back(self, K: Tensor) -> Tensor:
        return self._each(K, self.rotation.back)

    def turn(self, K: Tensor) -> Tensor:
        return self._each(K, self.rotation.turn)

    def _each(self, K: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        if self.rotation.still:
            return K
        if self.alike:
            return change(K.movedim(2, 0)).movedim(0, 2)  # [T, B, H, …, d]
        rows = K.movedim(2, 1)  # [B, T, H, …, d]
        return change(rows.flatten(0, 1)).view(rows.shape).movedim(1, 2)
