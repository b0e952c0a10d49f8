"""Lean on the neighbours in time, but only where a number is unlike all of them (a Hampel filter)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register


@register(
    "robust_smoothing",
    "robust smoothing",
    "A heuristic: numbers unlike their neighbours in time take their median.",
    order=57,
)
@dataclass(frozen=True)
class RobustSmoothing(Repair):
    """An element becomes the median of its channel over five positions around it, where it is further from
    that median than `limit` times the median distance of the five. All others stay as they are."""

    layers: tuple[int, ...]
    limit: float = 6.0
    timed = True

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        T = kv.K.shape[2]
        first = (~stored.real).sum(-1, keepdim=True)  # [B, 1]: padding is nobody's neighbour
        here = torch.arange(T, device=kv.K.device)
        around = [(here + step).clamp(max=T - 1).maximum(first) for step in (-2, -1, 0, 1, 2)]  # [B, T] each
        mended = []
        for x in kv:
            near = [_at(x, index) for index in around]
            median = _median(*near)
            spread = _median(*((y - median).abs() for y in near))
            odd = ((x - median).abs() > self.limit * spread) & region
            mended.append(median.where(odd, x))
        return KV(*mended)


def _at(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(2, index[:, None, :, None].expand_as(x))


def _median(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
    """The median of five, element by element, by comparisons: many times faster than sorting."""
    f = torch.maximum(torch.minimum(a, b), torch.minimum(c, d))
    g = torch.minimum(torch.maximum(a, b), torch.maximum(c, d))
    return torch.maximum(torch.minimum(f, g), torch.minimum(torch.maximum(f, g), e))
