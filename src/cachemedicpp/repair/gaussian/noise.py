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

from cachemedicpp.repair.gaussian import outliers
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.tokens import Tokens

GATE = 1.5  # times the largest disturbance seen in any clean block: below it a head is left as it is
AUDIBLE = 0.1  # noise below this share of a head's RMS is not told from none
WORTH = (
    0.4  # up to this level noise costs less than taking it off would; not rounding, whose bounds are known
)
_TAILS = (
    3.1  # fourth moment of disturbances above which some elements are wrong; white noise: 2.8, 3.0 at most
)
_TOP = 2.15  # of a block's median disturbance: in white noise no token has more
_HARDLY = 0.02  # share of elements that may have been found wrong in nothing but noise
_SHOWN = 0.1  # of noise that the other heads tell of, what a head shows by itself; another text's shows none
CHANCE = 4.0  # times noise: an element that is no farther off may be right
_LIKELY = 2.0  # the same for the RMS of a whole vector
_MOST = 0.5  # share of a block's heads that carry noise, from which all of them do
_NEARLY_ALL = 0.8  # share of a token's vectors that are wrong, from which nothing is left to impute them from
_ABOUT = 1.25  # how far off the level of one token may be
_STEPS = 200
_RUNGS = 0.5  # noise levels are rounded to powers of 2 in these steps: few distinct denoisers
_ALIKE = 2.0  # keys (or values) within this factor share one level, over a layer or the whole sequence


@dataclass(frozen=True)
class Noise:
    """Noise levels relative to each head's RMS, `[blocks, L, G]`; zero where there is none to speak of."""

    level: Tensor
    rounded: Tensor  # [blocks, L]: it comes from rounding
    taken: Tensor  # [blocks, L, G]: where it is taken off; elsewhere it is only known
    share: Tensor  # [L, G, d]: a channel's variance of its head's, 1 where all have the same


@dataclass(frozen=True)
class Rounding:
    """What storage on grids has added, by the width of its cells: `width² / 12` is the variance."""

    level: Tensor  # [blocks, L, G]: 0 off any grid
    share: Tensor  # [L, G, d]: a channel's variance of its head's


def rounding(tokens: Tokens, cell: Tensor, on_grid: Tensor) -> Rounding:
    """For cells `[N, L, G, d]`, relative to each head's RMS, in head blocks `on_grid` `[blocks, L, G]`.

    A key's channels are stored turned: over positions, each has the mean variance of its pair.
    """
    variance = cell.square() / 12
    level = torch.where(on_grid, tokens.block_mean(variance.mean(-1)).sqrt(), 0.0)
    own = (variance * on_grid[tokens.block].unsqueeze(-1)).sum(0)  # [L, G, d]
    for layer, turn in enumerate(tokens.turns):
        keys = own[layer, : tokens.keys]
        if not turn.still:
            own[layer, : tokens.keys] = (keys + keys[:, turn.partner]) / 2
    mean = own.mean(-1, keepdim=True)
    return Rounding(level, torch.where(mean > 0, own / mean, 1.0))


def estimate(field: Field, tokens: Tokens, active: Tensor, known: Rounding) -> Noise:
    """Noise of every head in `active` `[blocks, L]`, the blocks of one sequence.

    That of rounding is `known`.
    """
    level = _heard(field, tokens, active)
    level = torch.where(level > AUDIBLE, level, 0.0)
    on_grid = known.level > 0
    level = _pool(torch.where(on_grid, torch.where(known.level > AUDIBLE, known.level, 0.0), level))
    taken = worth_taking(field, tokens, level) | (on_grid & (level > 0))
    return Noise(level, on_grid.any(-1), taken, known.share)


def only_noise(field: Field, tokens: Tokens, active: Tensor, lost: Tensor) -> Tensor:
    """Heads `[blocks, L, G]` that carry noise, where nothing else is wrong in their window.

    `lost` `[N, L, G, d]` are the elements that were found wrong so far.
    White noise disturbs the elements of a vector like a Gaussian, and all tokens of a block alike. Wrong
    elements have heavier tails, wrong vectors stand out from the others.
    """
    noisy = _heard(field, tokens, active) > 0
    if not bool(noisy.any()):
        return noisy
    tails, top = torch.zeros(2, *noisy.shape, device=noisy.device)
    for layer in noisy.any(0).any(-1).nonzero().squeeze(1).tolist():
        gain = field.precision(layer).rows.square().sum(-1).sqrt()
        pull = (field.gradient(tokens.x, layer) / gain).view(len(tokens), *noisy.shape[2:], -1)
        power = pull.square().mean(-1)
        tails[:, layer] = tokens.block_median(pull.pow(4).mean(-1) / power.square())
        top[:, layer] = tokens.block_max(power) / tokens.block_median(power)
    alike = (_in_window(tails, noisy, field) < _TAILS) & (_in_window(top, noisy, field) < _TOP)
    alike &= _in_window(tokens.block_mean(lost.float().mean(-1)), torch.ones_like(noisy), field) < _HARDLY
    return noisy & alike.unsqueeze(-1)


def take_back(
    field: Field, tokens: Tokens, found: outliers.Found, active: Tensor, first: Tensor, known: Tensor
) -> None:
    """What was taken for wrong, and noise explains, is as it was (`first`, `[N, L, G, d]`).

    Imputing from noisy neighbours makes their noise louder: in a block of positions that is still noisy after
    outliers were imputed, only what is farther off than that was one. Where such noise begins or ends within
    a block, its tokens stand out from the others. `known` `[N, L, G, d]` is lost anyway.
    """
    if not bool((active.float().mean(-1) > _MOST).any()):
        return  # too few heads were looked at for their noise to be common
    level = common(_heard(field, tokens, active))[tokens.block]  # [N, L, G]
    if not bool((level > 0).any()):
        return
    faint = _faint(field, first, found) & ~known.any(-1)
    found.wrong &= ~faint
    found.lost &= ~faint.unsqueeze(-1)
    tokens.x = torch.where(faint.unsqueeze(-1), first, tokens.x)
    element, vector = field.amplified
    apart = first - tokens.x
    likely = apart.square().mean(-1).sqrt() <= _LIKELY * vector * level
    chance = apart.abs() <= (CHANCE * element * level).unsqueeze(-1)
    right = torch.where(found.wrong.unsqueeze(-1), likely.unsqueeze(-1), chance)
    right &= found.lost & ~known & (level > 0).unsqueeze(-1)
    found.lost &= ~right
    found.wrong &= ~right.all(-1)
    tokens.x = torch.where(right, first, tokens.x)


def _faint(field: Field, first: Tensor, found: outliers.Found) -> Tensor:
    """Vectors `[N, L, G]` that were taken for wrong with nearly all of their token's, and carry no more
    noise than is worth taking off."""
    many = _in_window(found.wrong.float(), torch.ones_like(found.wrong), field) > _NEARLY_ALL
    own = (outliers.distance(first, field.head_precision) - 1).clamp(min=0) / field.own_gain
    level = torch.where(found.wrong, own, torch.nan).flatten(1).nanmedian(-1, keepdim=True).values.sqrt()
    return found.wrong & (many & (level <= _ABOUT * WORTH)).unsqueeze(-1)


def common(level: Tensor) -> Tensor:
    """Noise levels `[blocks, L, G]` in blocks where most heads carry noise, none less than usual; else 0."""
    level = torch.where(level > AUDIBLE, level, 0.0)
    usual = torch.where(level > 0, level, torch.nan).flatten(1).nanmedian(-1).values[:, None, None]
    most = (level > 0).float().mean((1, 2), keepdim=True) > _MOST
    return torch.where(most, torch.maximum(level, usual), 0.0)


def worth_taking(field: Field, tokens: Tokens, level: Tensor) -> Tensor:
    """Head blocks that are loud by the others' account and by their own.

    Vectors of another text contradict the other heads and look like themselves: nothing tells which of them
    are right. What one head shows may be little: loud keys of a block, and loud values, speak together.
    """
    loud = level > WORTH
    if not bool(loud.any()):
        return loud
    own = tokens.block_median(outliers.distance(tokens.x, field.head_precision)) - 1
    told = _SHOWN * level.square() * field.own_gain
    kinds = (loud.shape[0], loud.shape[1], 2, -1)  # keys, values
    over = torch.where(loud, own - told, 0.0).view(kinds).sum((1, 3), keepdim=True)  # [blocks, 1, 2, 1]
    together = (over >= 0).expand(-1, *loud.view(kinds).shape[1:]).reshape(loud.shape)
    return loud & ((own >= told) | together)


def denoise(field: Field, tokens: Tokens, noise: Noise) -> Tensor:
    """The posterior mean of each noisy head vector given its window, `[N, L, G, d]`; others unchanged."""
    out = tokens.x.clone()
    d = out.shape[-1]
    for layer in noise.taken.any(0).any(-1).nonzero().squeeze(1).tolist():
        window = field.stats.window(layer)
        channel = noise.share[window[0] : window[-1] + 1].sqrt()
        near = noise.level[:, window[0] : window[-1] + 1].flatten(1)  # [blocks, W G]
        near = torch.cat((near, noise.rounded[:, layer, None].to(near)), 1)
        noisy = noise.taken[:, layer].any(-1)
        patterns, which = torch.unique(near[noisy], dim=0, return_inverse=True)
        number = noisy.new_full((len(noisy),), -1, dtype=torch.long)
        number[noisy] = which
        of_token = number[tokens.block]
        for k, pattern in enumerate(patterns):
            rows = (of_token == k).nonzero().squeeze(1)
            if not len(rows):
                continue
            levels, rounded = pattern[:-1].view(len(window), -1, 1) * channel, bool(pattern[-1])
            posterior_mean = field.denoiser(layer, levels, rounded)
            near_x = tokens.x[rows, window[0] : window[-1] + 1].flatten(1)
            mended = posterior_mean(near_x).view(len(rows), -1, d)
            take = noise.taken[tokens.block[rows], layer].unsqueeze(-1)
            out[rows, layer] = torch.where(take, mended, out[rows, layer])
    return out


def _heard(field: Field, tokens: Tokens, active: Tensor) -> Tensor:
    """Noise levels `[blocks, L, G]` of the heads in `active` that are louder than clean text ever is."""
    level = torch.zeros(*active.shape, field.stats.groups, device=active.device)
    layers = active.any(0).nonzero().squeeze(1)
    if not len(layers):
        return level
    typical, largest = field.stats.quiet[:, layers]
    seen = tokens.block_median(field.disturbance(tokens.x, layers.tolist(), active[tokens.block]))
    seen = torch.where(seen.isnan(), typical, seen)  # [blocks, l, G]
    loud = (seen > GATE * largest) & active[:, layers].unsqueeze(-1)
    if not bool(loud.any()):
        return level
    L, G = field.stats.scale.shape
    couplings = field.couplings.view(L, G, L, G)[layers][:, :, layers].flatten(2).flatten(0, 1)
    found = _non_negative((seen - typical).clamp(min=0).flatten(1), couplings).sqrt().view(seen.shape)
    level[:, layers] = torch.where(loud, found, 0.0)
    return level


def _in_window(x: Tensor, heads: Tensor, field: Field) -> Tensor:
    """The mean of `x` `[blocks, L, G]` over the `heads` of each layer's window, `[blocks, L]`."""
    reach = field.stats.reach
    total, count = (
        torch.nn.functional.avg_pool1d(y.nan_to_num().sum(-1).unsqueeze(1), 2 * reach + 1, 1, reach).squeeze(
            1
        )
        for y in (torch.where(heads, x, 0.0), heads.to(x))
    )
    return total / count


def _non_negative(excess: Tensor, couplings: Tensor) -> Tensor:
    """Solve `couplings τ² = excess` for `τ² ≥ 0`, one row per block, by multiplicative updates."""
    weight = 1 / couplings.diagonal()
    A, y = couplings * weight.unsqueeze(1), excess * weight
    tau = y + 1e-9
    up = y @ A
    for _ in range(_STEPS):
        tau = tau * up / (tau @ A.T @ A + 1e-12)
    return tau


def _pool(level: Tensor) -> Tensor:
    """One level per noisy head of a sequence (the median over its blocks); similar heads share a level."""
    G = level.shape[-1]
    loud = level > 0
    pooled = torch.where(loud, level, torch.nan).nanmedian(0).values  # [L, G]
    for kind in (slice(0, G // 2), slice(G // 2, G)):
        own = pooled[:, kind]
        of_layer = own.nanmedian(-1, keepdim=True).values
        of_sequence = own.flatten().nanmedian()
        shared = torch.where(_alike(own, of_layer), of_layer, own)
        pooled[:, kind] = torch.where(_alike(own, of_sequence), of_sequence, shared)
    rounded = 2 ** ((pooled.log2() / _RUNGS).round() * _RUNGS)
    return torch.where(loud, rounded, 0.0)


def _alike(level: Tensor, typical: Tensor) -> Tensor:
    return (level / typical > 1 / _ALIKE) & (level / typical < _ALIKE)
