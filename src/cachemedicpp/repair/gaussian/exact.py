"""Losses that need no statistics: non-finite numbers, impossible zeros, numbers out of all proportion."""

from __future__ import annotations

import torch
from torch import Tensor

_ABSURD = 1e3  # times a head's RMS
_COARSEST = 256  # levels either side of zero that still make a grid
_TOLERANCE = 1e-3
_MOST = 0.5  # share of a block's vectors that have to be on its grid
_ENOUGH = 8  # numbers other than zero that a vector needs to show a grid


def lost_elements(stored: Tensor, scale: Tensor, gridded: Tensor) -> Tensor:
    """Elements of `stored` `[…, L, G, d]` that are surely lost; zeros are, unless on a grid."""
    return absurd(stored, scale.unsqueeze(-1)) | ((stored == 0) & ~gridded.unsqueeze(-1))


def absurd(x: Tensor, scale: Tensor) -> Tensor:
    """Elements of `x` that are no numbers, or out of all proportion to `scale`."""
    return ~x.isfinite() | (x.abs() > _ABSURD * scale)


def grids(stored: Tensor, number: Tensor, count: int, coarse: bool) -> Tensor:
    """The step of head blocks whose numbers are all multiples of one (quantised storage), else 0.

    `[blocks, L, G]`, for `stored` `[N, L, G, d]` and the block `number` `[N]` of each token. Zeros on a grid
    are rounded numbers, not lost ones. `coarse` storage (16-bit floats) blurs the multiples.
    """
    x = stored.abs()
    if not bool((x == 0).any()):
        return x.new_zeros(count, *x.shape[1:3])
    own = x.masked_fill((x == 0) | ~x.isfinite(), torch.inf).amin(-1)  # [N, L, G]
    shows = multiples(x, own, coarse) & ((x > 0).sum(-1) >= min(_ENOUGH, x.shape[-1] // 4))
    every = number[:, None, None].expand_as(own)
    least = own.new_full((count, *own.shape[1:]), torch.inf)
    least.scatter_reduce_(0, every, own.masked_fill(~shows | ~(x == 0).any(-1), torch.inf), "amin")
    on = multiples(x, least[number], coarse).to(x)
    share = torch.zeros_like(least).index_add_(0, number, on)
    share /= torch.bincount(number, minlength=count).clamp(min=1)[:, None, None]
    return torch.where((share >= _MOST) & least.isfinite(), least, 0.0)


def multiples(x: Tensor, step: Tensor, coarse: bool) -> Tensor:
    """Vectors of `x` `[…, d]`, not negative, that are small multiples of `step` `[…]` throughout."""
    level = x / step.unsqueeze(-1)
    off = (level - level.round()).abs() > _TOLERANCE + (2.0**-8 if coarse else 0.0) * level
    return ~off.any(-1) & (level.amax(-1) <= (_COARSEST / 4 if coarse else _COARSEST))
