"""Lean on the neighbour in time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register


@register("smoothing", "smoothing", "A heuristic: each vector is mixed with the one before it.", order=52)
@dataclass(frozen=True)
class Smoothing(Repair):
    """`x_t <- (1 - beta) x_t + beta x_{t-1}`, from the unsmoothed `x_{t-1}`; a first token stays as it is."""

    layers: tuple[int, ...]
    beta: float = 0.3

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        has_past = torch.zeros_like(stored.real)
        has_past[:, 1:] = stored.real[:, :-1]
        region = (stored.region(kv.K.shape[1]) & has_past.unsqueeze(1)).unsqueeze(-1)
        return KV(self._smooth(kv.K, region), self._smooth(kv.V, region))

    def _smooth(self, x: Tensor, region: Tensor) -> Tensor:
        before = x.roll(1, dims=-2)
        return ((1 - self.beta) * x + self.beta * before).where(region, x)
