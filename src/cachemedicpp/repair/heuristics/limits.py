"""What no clean cache has held in this channel is an error: three ways to get rid of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.heuristics.levels import Levels
from cachemedicpp.repair.registry import register


@register(
    "limits_clamp",
    "limits, clamped",
    "A heuristic: numbers beyond their channel's calibrated limits are cut off.",
    order=58,
)
@dataclass(frozen=True)
class LimitsClamp(Repair):
    """Elements beyond the least and largest value their channel had in calibration are clamped to it.

    Channels of keys are those before the rotation by position.
    """

    layers: tuple[int, ...]
    levels: Levels
    timed = True

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        levels, layer, places = self.levels, stored.layer, stored.positions
        plain = KV(levels.turned(kv.K, layer, places, back=True), kv.V)
        mended = []
        for tensor, (x, beyond) in enumerate(zip(plain, levels.beyond(kv, layer, places), strict=True)):
            low, high, mean = (levels.of(n, layer, tensor, places).to(x) for n in ("low", "high", "mean"))
            better = self.instead(x, low, high, mean).where(beyond, x)
            if tensor == 0:
                better = levels.turned(better, layer, places)
            touched = beyond.any(-1, keepdim=True) & region  # a vector with nothing to mend stays exact
            mended.append(better.where(touched, kv[tensor]))
        return KV(*mended)

    def instead(self, x: Tensor, low: Tensor, high: Tensor, mean: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x.nan_to_num(0.0), low), high)


@register(
    "limits_zero",
    "limits, to zero",
    "A heuristic: numbers beyond their channel's calibrated limits are set to 0.",
    order=59,
)
@dataclass(frozen=True)
class LimitsZero(LimitsClamp):
    """The same elements become 0."""

    def instead(self, x: Tensor, low: Tensor, high: Tensor, mean: Tensor) -> Tensor:
        return torch.zeros_like(x)


@register(
    "limits_mean",
    "limits, to the mean",
    "A heuristic: numbers beyond their channel's limits take its calibrated mean.",
    order=60,
)
@dataclass(frozen=True)
class LimitsMean(LimitsClamp):
    """The same elements become their channel's calibrated mean."""

    def instead(self, x: Tensor, low: Tensor, high: Tensor, mean: Tensor) -> Tensor:
        return mean.expand_as(x)
