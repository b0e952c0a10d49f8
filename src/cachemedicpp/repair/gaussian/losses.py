"""What shows without the field: lost elements, rounding, and which tokens are sinks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian import exact
from cachemedicpp.repair.gaussian.screen import Screened
from cachemedicpp.repair.gaussian.statistics import Statistics

_GONE = 0.9  # share of a token's elements beyond which there is nothing left to impute it from


@dataclass(frozen=True)
class Losses:
    """What was lost or rounded, of some positions of one sequence."""

    cell: Tensor  # [1, n, L, G, d]: the width that an element was rounded in, 0 off any grid
    lost: Tensor  # [1, n, L, G, d]
    usable: Tensor  # [1, n, L, G, d]: what is stored; 0 for what is no number
    gone: Tensor  # [1, n]: positions of which nothing is left
    sink: Tensor  # [1, n]
    on_grid: Tensor  # [blocks, L, G]


def losses(
    stats: Statistics,
    stored: Tensor,
    seen: Screened,
    positions: Tensor,
    coarse: bool,
    without: Collection[str],
) -> Losses:
    """For `stored` `[1, n, L, G, d]` at `positions` `[1, n]`; `coarse` says that it is in 16-bit floats.

    `without` names types of damage that are not looked for.
    """
    known, number, count = seen.known.unsqueeze(0), seen.block.unsqueeze(0), len(seen.active)
    cell = torch.zeros_like(stored)
    if "quant_noise" not in without:
        cell[known] = exact.cells(stored[known], number[known], count, coarse)
    lost = exact.lost_elements(stored, stats.scale, cell) & seen.real[None, :, None, None, None]
    if "dropout_zero" in without:
        lost &= stored != 0
    usable = stored.masked_fill((lost & (stored != 0)) | ~stored.isfinite(), 0.0)
    gone = lost.float().mean((-1, -2, -3)) > _GONE  # [1, n]
    sink = seen.sink.unsqueeze(0) & ~gone
    if stats.sink is not None:
        sink |= gone & known & (positions == 0)  # a model with sinks has one there
    on = cell[known] > 0
    on_grid = exact.mostly(on, torch.ones_like(on), number[known], count)
    return Losses(cell, lost, usable, gone, sink, on_grid)
