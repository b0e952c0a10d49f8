"""Forget what may be damaged."""

from __future__ import annotations

from dataclasses import dataclass

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored


@dataclass(frozen=True)
class ResetClear(Repair):
    """Zero under the mask."""

    layers: tuple[int, ...]
    name = "reset_clear"

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)  # [B, H, T, 1]
        return KV(kv.K.masked_fill(region, 0.0), kv.V.masked_fill(region, 0.0))
