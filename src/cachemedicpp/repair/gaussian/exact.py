"""Losses that need no statistics: non-finite numbers, impossible zeros, numbers out of all proportion."""

from __future__ import annotations

import torch
from torch import Tensor

_ABSURD = 1e3  # times a head's RMS
_TOLERANCE = 1e-3  # of a step
_BLURRED = 2.0**-8  # of a number, by which 16-bit floats are off
_SHARP = 2.0**-4  # of a step: blurred by more, levels cannot be told to be a step apart
_RUN = 16  # numbers that show a grid; storage that shares a step shares it among at least so many
_PARTS = (1, 2, 4)  # of a head vector, that have a step of their own
_MOST = 0.5  # share of a head block's elements that have to be on a grid


def lost_elements(stored: Tensor, scale: Tensor, cell: Tensor) -> Tensor:
    """Elements of `stored` `[…, L, G, d]` that are surely lost; zeros are, unless on a grid."""
    return absurd(stored, scale.unsqueeze(-1)) | ((stored == 0) & (cell == 0))


def absurd(x: Tensor, scale: Tensor) -> Tensor:
    """Elements of `x` that are no numbers, or out of all proportion to `scale`."""
    return ~x.isfinite() | (x.abs() > _ABSURD * scale)


def cells(stored: Tensor, number: Tensor, count: int, coarse: bool) -> Tensor:
    """The width of the cell that each element of `stored` `[N, L, G, d]` was rounded in, 0 off any grid.

    Quantised storage leaves few different numbers, a step apart, in whatever shares a step: the vectors of a
    head, one vector, a part of one, or a channel over positions. `number` `[N]` is the block of each token.
    The step says how large the error can be, and where: `cell² / 12` is its variance. Zeros show no grid, for
    they may be lost numbers; they are rounded ones where most numbers of their head are on one.
    """
    out = torch.zeros_like(stored)
    order = torch.argsort(number, stable=True)
    sizes = torch.bincount(number, minlength=count)
    place = torch.arange(len(order), device=stored.device) - (sizes.cumsum(0) - sizes)[number[order]]
    for layer in range(stored.shape[1] if len(stored) else 0):
        x = stored[:, layer]
        by_block = x.new_full((count, int(sizes.max()), *x.shape[1:]), torch.nan)
        by_block[number[order], place] = x[order]
        channel = _step(by_block.movedim(1, -1), coarse)[number]  # [N, G, d]
        vector = _of_vectors(x, coarse)
        vector = _of_head(x, vector, number, count, coarse)
        cell = torch.where(vector > 0, vector, channel)
        zero = x == 0
        on = (cell > 0) & ~zero
        grid = mostly(on, ~zero, number, count)[number].unsqueeze(-1)  # [N, G, 1]
        typical = cell.where(on, torch.nan).nanmedian(0).values.nan_to_num()  # of the channel, [G, d]
        typical = torch.where(typical > 0, typical, typical.amax(-1, keepdim=True))
        out[:, layer] = torch.where(zero & grid & (cell == 0), typical, cell)
    return out


def mostly(on: Tensor, of: Tensor, number: Tensor, count: int) -> Tensor:
    """Whether most of the elements `of` `[N, …, d]` in each block are `on`: `[count, …]`."""
    share = (on & of).sum(-1).float() - _MOST * of.sum(-1)
    return share.new_zeros(count, *share.shape[1:]).index_add_(0, number, share) > 0


def _of_vectors(x: Tensor, coarse: bool) -> Tensor:
    """The steps of head vectors `x` `[N, G, d]`, or of their parts, for each element."""
    own = torch.zeros_like(x)
    for parts in _PARTS:
        if x.shape[-1] // parts >= _RUN and x.shape[-1] % parts == 0:
            step = _step(x.reshape(*x.shape[:-1], parts, -1), coarse).repeat_interleave(
                x.shape[-1] // parts, -1
            )
            own = torch.where(own > 0, own, step)
    return own


def _of_head(x: Tensor, own: Tensor, number: Tensor, count: int, coarse: bool) -> Tensor:
    """Steps of vectors `own` `[N, G, d]`; the least of them, where most of a head block are on its grid."""
    first = own.amin(-1)
    least = first.new_full((count, first.shape[1]), torch.inf)
    shown = first.masked_fill(first == 0, torch.inf)
    least.scatter_reduce_(0, number[:, None].expand_as(shown), shown, "amin")
    shared = least[number].unsqueeze(-1)  # [N, G, 1]
    level = x / shared
    off = (level - level.round()).abs() > _TOLERANCE + _BLURRED * coarse * level.abs()
    on = (~off).all(-1, keepdim=True).expand_as(x) & shared.isfinite()
    common = mostly(on, torch.ones_like(on), number, count)[number].unsqueeze(-1)
    return torch.where(on & common, shared, own)


def _step(x: Tensor, coarse: bool) -> Tensor:
    """The step between the few numbers that `x` `[…, n]` holds, `[…]`; 0 if it is on no grid. NaN is none."""
    if x.shape[-1] < _RUN // 2:
        return x.new_zeros(x.shape[:-1])
    levels = x.sort(-1).values
    gap = levels.diff(dim=-1)
    new = gap > 0
    step = gap.masked_fill(~new, torch.inf).amin(-1)
    ratio = gap / step.unsqueeze(-1)
    blur = _BLURRED * coarse * levels.abs().nan_to_num().amax(-1, keepdim=True) / step.unsqueeze(-1)
    even = ~new | ((ratio - ratio.round()).abs() <= _TOLERANCE + blur * (1 + ratio))
    zeros = (x == 0).sum(-1)  # may be lost numbers: they show no grid
    seen = x.isfinite().sum(-1)
    different = new.sum(-1) + 1 - (zeros > 0).int()
    few = 2 * different <= seen - zeros
    sharp = blur.squeeze(-1) < _SHARP
    return torch.where(even.all(-1) & few & sharp & step.isfinite(), step, 0.0)
