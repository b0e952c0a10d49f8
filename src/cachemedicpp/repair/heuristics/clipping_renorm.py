"""Cut off what sticks out, keep the vector's size."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register


@register(
    "clipping_renorm",
    "clipping",
    "A heuristic: numbers that are too large are cut off, and the vector is stretched back.",
    order=54,
)
@dataclass(frozen=True)
class ClippingRenorm(Repair):
    """Clamp to `±limit`, then scale each vector to the RMS it had before.

    A vector with nothing to cut is left exactly as it is.
    """

    layers: tuple[int, ...]
    limit: float = 6.0

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        return KV(self._clip(kv.K, region), self._clip(kv.V, region))

    def _clip(self, x: Tensor, region: Tensor) -> Tensor:
        clipped = x.clamp(-self.limit, self.limit)
        rms = clipped.float().square().mean(-1, keepdim=True).sqrt()  # [B, H, T, 1]
        target = x.float().square().mean(-1, keepdim=True).sqrt()
        region = region & (x.abs() > self.limit).any(-1, keepdim=True)
        scale = (target / rms.clamp(min=1e-12)).to(x.dtype)
        return (clipped * scale).where(region, x)
