"""Losses that need no statistics: non-finite numbers, impossible zeros, numbers out of all proportion."""

from __future__ import annotations

import torch
from torch import Tensor

_ABSURD = 1e3  # times a head's RMS
_COARSEST = 256  # levels either side of zero that still make a grid
_TOLERANCE = 1e-3


def lost_elements(stored: Tensor, scale: Tensor, gridded: Tensor) -> Tensor:
    """Elements of `stored` `[N, L, G, d]` that are surely lost. Zeros are, unless the head is on a grid."""
    absurd = ~stored.isfinite() | (stored.abs() > _ABSURD * scale.unsqueeze(-1))
    return absurd | ((stored == 0) & ~gridded.unsqueeze(-1))


def on_grid(stored: Tensor, block: Tensor, blocks: int, coarse: bool) -> Tensor:
    """Head blocks `[blocks, L, G]` whose numbers are all multiples of one step: quantised storage.

    Their zeros are rounded numbers, not lost ones. `coarse` storage (16-bit floats) blurs the multiples.
    """
    found = torch.zeros(blocks, *stored.shape[1:3], dtype=torch.bool)
    slack = 2.0**-8 if coarse else 0.0
    for number in torch.unique(block[(stored == 0).flatten(1).any(-1)]).tolist():
        x = stored[block == number].abs().permute(1, 2, 0, 3).flatten(2)  # [L, G, n d]
        step = x.masked_fill((x == 0) | ~x.isfinite(), torch.inf).amin(-1, keepdim=True)
        level = x / step
        off = (level - level.round()).abs() > _TOLERANCE + slack * level
        few = level.amax(-1) <= (_COARSEST / 4 if coarse else _COARSEST)
        found[number] = few & ~off.any(-1) & ((x > 0).float().mean(-1) > 0.01)
    return found
