"""How much noise each head carries, and the posterior mean that takes it off.

If head `u` carries white noise of variance `τ_u²`, the disturbance `|(J x)_v|²` of head `v` grows by
`Σ_u |J_vu|² τ_u²` over what clean text shows: one linear system, non-negative, solved for all heads at once.
A head that was rotated, swapped or replaced is the same thing at `τ` about 1. Blocks of positions are judged
one by one, with medians, so that damage to some positions, or to single elements, stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.tokens import Tokens

GATE = 1.5  # times the largest disturbance seen in any clean block: below it a head is left as it is
WORTH = 0.1  # noise below this share of a head's RMS costs less than taking it off would
_STEPS = 200
_RUNGS = 0.5  # noise levels are rounded to powers of 2 in these steps: few distinct denoisers
_ALIKE = 2.0  # keys (or values) within this factor share one level, over a layer or the whole sequence


@dataclass(frozen=True)
class Noise:
    """Noise levels relative to each head's RMS, `[blocks, L, G]`; zero where a head is left alone."""

    level: Tensor

    @property
    def found(self) -> Tensor:
        return self.level > 0


def estimate(field: Field, tokens: Tokens, rows: int, judged: Tensor) -> Noise:
    """Noise of every head in the `judged` blocks of the `rows` sequences."""
    if not bool(judged.any()):
        return Noise(torch.zeros(tokens.blocks, *tokens.x.shape[1:3]))
    typical, largest = field.stats.quiet
    seen = tokens.block_median(field.disturbance(tokens.x))
    seen = torch.where(seen.isnan(), typical, seen)  # [blocks, L, G]
    level = _non_negative((seen - typical).clamp(min=0).flatten(1), field.couplings).sqrt().view(seen.shape)
    loud = (seen > GATE * largest) & (level > WORTH) & judged[:, None, None]
    return Noise(_pool(level, loud, rows))


def denoise(field: Field, tokens: Tokens, noise: Noise) -> Tensor:
    """The posterior mean of each noisy head vector given its window, `[N, L, G, d]`; others unchanged."""
    out = tokens.x.clone()
    d = out.shape[-1]
    for layer in range(out.shape[1]):
        window = field.stats.window(layer)
        near = noise.level[:, window[0] : window[-1] + 1]  # [blocks, W, G]
        noisy = noise.found[:, layer].any(-1)
        if not bool(noisy.any()):
            continue
        patterns, which = torch.unique(near[noisy].flatten(1), dim=0, return_inverse=True)
        number = torch.full((len(noisy),), -1)
        number[noisy] = which
        of_token = number[tokens.block]
        for k, pattern in enumerate(patterns):
            rows = (of_token == k).nonzero().squeeze(1)
            if not len(rows):
                continue
            posterior_mean = field.denoiser(layer, pattern.view(len(window), -1))
            near_x = tokens.x[rows, window[0] : window[-1] + 1].flatten(1)
            mended = posterior_mean(near_x).view(len(rows), -1, d)
            take = noise.found[tokens.block[rows], layer].unsqueeze(-1)
            out[rows, layer] = torch.where(take, mended, out[rows, layer])
    return out


def _non_negative(excess: Tensor, couplings: Tensor) -> Tensor:
    """Solve `couplings τ² = excess` for `τ² ≥ 0`, one row per block, by multiplicative updates."""
    weight = 1 / couplings.diagonal()
    A, y = couplings * weight.unsqueeze(1), excess * weight
    tau = y + 1e-9
    up = y @ A
    for _ in range(_STEPS):
        tau = tau * up / (tau @ A.T @ A + 1e-12)
    return tau


def _pool(level: Tensor, loud: Tensor, rows: int) -> Tensor:
    """One level per noisy head and sequence (the median over its blocks); similar heads share a level."""
    blocks, L, G = level.shape
    by_row = torch.where(loud, level, torch.nan).view(rows, -1, L, G)
    pooled = by_row.nanmedian(1).values  # [rows, L, G]
    for kind in (slice(0, G // 2), slice(G // 2, G)):
        own = pooled[..., kind]
        of_layer = own.nanmedian(-1, keepdim=True).values
        of_sequence = own.flatten(1).nanmedian(-1).values[:, None, None]
        shared = torch.where(_alike(own, of_layer), of_layer, own)
        pooled[..., kind] = torch.where(_alike(own, of_sequence), of_sequence, shared)
    rounded = 2 ** ((pooled.log2() / _RUNGS).round() * _RUNGS)
    spread = rounded.unsqueeze(1).expand(rows, blocks // rows, L, G).reshape(blocks, L, G)
    return torch.where(loud, spread, torch.zeros(()))


def _alike(level: Tensor, typical: Tensor) -> Tensor:
    return (level / typical > 1 / _ALIKE) & (level / typical < _ALIKE)
