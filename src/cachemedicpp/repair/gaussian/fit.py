"""Does a head still look like itself? A test that clean heads pass and rotated, swapped or foreign ones fail.

Each vector's energy is shared out over the directions of its head's calibrated second moments. On clean text
it lies along the strong ones; in a head whose directions are no longer its own it lies anywhere. The fit is 1
for clean text and near 0 for a random rotation; white noise of the head's own RMS brings it to about a half.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian.statistics import Statistics
from cachemedicpp.repair.gaussian.tokens import Tokens

MISFIT = 0.2  # a head block below this misfits
NAMED = 2  # misfitting blocks that make a named head (all of them, if it has fewer)


def misfits(fit: Tensor) -> Tensor:
    """Head blocks of named heads that misfit, for `fit` `[rows, blocks, L, G]`, NaN for an empty block."""
    low = fit < MISFIT
    filled = (~fit.isnan()).sum(1, keepdim=True)  # [rows, 1, L, G]
    return low & (low.sum(1, keepdim=True) >= filled.clamp(max=NAMED))


def fits(tokens: Tokens, stats: Statistics, layers: Iterable[int]) -> Tensor:
    """How well each head block of `layers` fits its calibration, `[blocks, L, G]`; NaN elsewhere, and for an
    empty block."""
    L, G, _ = stats.mean.shape
    expected, shape = stats.energy
    out = stats.mean.new_full((tokens.blocks, L, G), torch.nan)
    for layer in layers:
        x = tokens.x[:, layer] + stats.mean[layer]  # [N, G, d]
        along = torch.einsum("ngi,gij,ngj->ng", x, shape[layer], x) / x.square().sum(-1).clamp(min=1e-12)
        out[:, layer] = tokens.block_mean(along / expected[layer])
    out[torch.bincount(tokens.block, minlength=tokens.blocks) == 0] = torch.nan
    return out
