"""Forget what may be damaged, by overwriting it with nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cachemedicpp.cache.state import KV
from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.heuristics.time import reachable
from cachemedicpp.repair.registry import register


@register("reset_clear", "reset", "A heuristic: what damage can reach is set to 0.", order=51)
@dataclass(frozen=True)
class ResetClear(Repair):
    """Zero under the mask: the true one where it is known, else the protocol's time mask (`axes`).

    A zeroed key still draws attention (its score is 0), unlike a position that is forgotten.
    """

    layers: tuple[int, ...]
    axes: AxesConfig | None = None  # None: everything that is stored
    discards = True

    def under(self, axes: AxesConfig) -> ResetClear:
        return replace(self, axes=axes)

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1])
        if stored.suspect is None and self.axes is not None:
            region = region & reachable(self.axes, stored.real, stored.positions).unsqueeze(1)
        region = region.unsqueeze(-1)  # [B, H, T, 1]
        return KV(kv.K.masked_fill(region, 0.0), kv.V.masked_fill(region, 0.0))
