"""Forgetting that knows what is usual: the first position is kept, since its contents are known before."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.heuristics.forget import Forget
from cachemedicpp.repair.heuristics.levels import FIRST, Levels
from cachemedicpp.repair.registry import register


@register(
    "forget_sink",
    "forgetting but the first",
    "A heuristic: as forgetting, but the first position stays, with its calibrated mean.",
    order=62,
)
@dataclass(frozen=True)
class ForgetSink(Forget):
    """Like `forget`, but the first position, the attention sink, stays, with its calibrated mean."""

    levels: Levels | None = None

    def forgotten(self, layer: int, old: KV, numbers: Tensor, region: Tensor) -> tuple[KV, Tensor]:
        assert self.levels is not None  # noqa: S101
        first = (numbers <= FIRST).unsqueeze(1)  # [B, 1, T]
        known = (region & first).unsqueeze(-1)
        usual = [self.levels.of("mean", layer, tensor, numbers).to(x) for tensor, x in enumerate(old)]
        return KV(*(mean.where(known, x) for mean, x in zip(usual, old, strict=True))), region & ~first


@register(
    "limits_forget",
    "forgetting beyond limits",
    "A heuristic: positions with a number beyond their channel's limits are hidden from attention.",
    order=63,
)
@dataclass(frozen=True)
class LimitsForget(ForgetSink):
    """Hides a head's position where an element of its key or value is beyond the calibrated limits.

    The first position is never hidden: beyond the limits it gets its calibrated mean.
    """

    discards = False

    def forgotten(self, layer: int, old: KV, numbers: Tensor, region: Tensor) -> tuple[KV, Tensor]:
        assert self.levels is not None  # noqa: S101
        K, V = self.levels.beyond(old, layer, numbers)
        return super().forgotten(layer, old, numbers, region & (K | V).any(-1))
