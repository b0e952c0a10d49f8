"""Cut off what sticks out, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register


@register("clamp", "clamp", "A heuristic: numbers that are too large are cut off.", order=56)
@dataclass(frozen=True)
class Clamp(Repair):
    """Clamp to `±limit`. The vector gets shorter: its size before may have been that of an error."""

    layers: tuple[int, ...]
    limit: float = 6.0
    timed = True

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        return KV(*(x.clamp(-self.limit, self.limit).where(region, x) for x in kv))
