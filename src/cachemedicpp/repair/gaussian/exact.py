"""Losses that need no statistics: non-finite numbers, impossible zeros, numbers out of all proportion."""

from __future__ import annotations

import torch
from torch import Tensor

_ABSURD = 1e3  # times a head's RMS
_COARSEST = 256  # levels either side of zero that still make a grid
_TOLERANCE = 1e-3
_ENOUGH = 8  # numbers other than zero that a vector needs to show a grid


def lost_elements(stored: Tensor, scale: Tensor, gridded: Tensor) -> Tensor:
    """Elements of `stored` `[…, L, G, d]` that are surely lost. Zeros are, unless their vector is on a grid."""
    absurd = ~stored.isfinite() | (stored.abs() > _ABSURD * scale.unsqueeze(-1))
    return absurd | ((stored == 0) & ~gridded.unsqueeze(-1))


def grid_step(stored: Tensor, coarse: bool) -> Tensor:
    """The step of vectors of `stored` `[…, d]` whose numbers are all multiples of one: quantised storage; else 0.

    Their zeros are rounded numbers, not lost ones. `coarse` storage (16-bit floats) blurs the multiples.
    """
    out = stored.new_zeros(stored.shape[:-1])
    where = (stored == 0).any(-1)
    x = stored[where].abs()  # [n, d]
    step = x.masked_fill((x == 0) | ~x.isfinite(), torch.inf).amin(-1, keepdim=True)
    level = x / step
    off = (level - level.round()).abs() > _TOLERANCE + (2.0**-8 if coarse else 0.0) * level
    few = level.amax(-1) <= (_COARSEST / 4 if coarse else _COARSEST)
    grid = few & ~off.any(-1) & ((x > 0).sum(-1) >= min(_ENOUGH, x.shape[-1] // 4))
    out[where] = torch.where(grid, step.squeeze(-1), 0.0)
    return out
