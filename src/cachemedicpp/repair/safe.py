"""`repair="safe"`: undo what cannot be anything but damage, and touch nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register

_IMPOSSIBLE = 1e4  # times the median RMS of a head's vectors; sinks and outlier channels stay below 1e2


_MEANS = (
    "A repair that undoes only what cannot be anything but damage: numbers that are not finite or impossibly "
    "large."
)


@register("safe", "safe", _MEANS, role="safe")
@dataclass(frozen=True)
class Safe(Repair):
    """Replace non-finite and impossibly large elements by their channel's median over the other positions.

    It needs no calibration and no training, and a cache without such elements keeps its bits.
    """

    layers: tuple[int, ...]

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        return KV(*(_mend(x, stored.real) for x in kv))


def _mend(x: Tensor, real: Tensor) -> Tensor:
    here = real[:, None, :, None]  # [B, 1, T, 1]
    finite = x.isfinite()
    rms = x.double().masked_fill(~finite, 0.0).square().mean(-1, keepdim=True).sqrt()  # [B, H, T, 1]
    typical = rms.masked_fill(~here, torch.nan).nanmedian(2, keepdim=True).values
    # In padding too: attention multiplies it by 0, and 0 times NaN is NaN.
    bad = ~finite | (x.double().abs() > _IMPOSSIBLE * typical.nan_to_num(torch.inf))
    if not bool(bad.any()):
        return x
    usual = x.float().masked_fill(bad | ~here, torch.nan).nanmedian(2, keepdim=True).values.nan_to_num(0.0)
    return torch.where(bad, usual.to(x.dtype), x)
