"""Cut off what sticks out, then give each vector the size that is usual for its head."""

from __future__ import annotations

from dataclasses import dataclass

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.heuristics.levels import Levels
from cachemedicpp.repair.registry import register


@register(
    "renorm_calibrated",
    "calibrated clipping",
    "A heuristic: as clipping, but the vector gets its head's usual size.",
    order=61,
)
@dataclass(frozen=True)
class RenormCalibrated(Repair):
    """Clamp to `±limit`, then scale a vector that was cut to its head's calibrated RMS.

    Unlike `clipping_renorm` the target is not the damaged vector's own size, which is the error's.
    """

    layers: tuple[int, ...]
    levels: Levels
    limit: float = 6.0
    timed = True

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        mended = []
        for tensor, x in enumerate(kv):
            target = self.levels.of("rms", stored.layer, tensor, stored.positions).to(x)  # [B, H, T, 1]
            clipped = x.clamp(-self.limit, self.limit)
            rms = clipped.float().square().mean(-1, keepdim=True).sqrt().clamp(min=1e-12).to(x.dtype)
            cut = (x.abs() > self.limit).any(-1, keepdim=True) & region
            mended.append((clipped * (target / rms)).where(cut, x))
        return KV(*mended)
