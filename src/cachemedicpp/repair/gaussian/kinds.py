"""Kinds of tokens: a text's tokens fall into clusters, and noise does not hide which one a token is of.

The first layers hold little but the token itself, so one Gaussian over all tokens draws a rare token towards
the common ones. A Gaussian about each kind's own mean, all of one covariance, does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 512
_TOKENS = 64  # wanted for each kind
_ROUNDS = 8
_CHUNK = 8192  # tokens compared at a time
_SEED = 0


def how_many(tokens: int) -> int:
    """How many kinds this number of `tokens` is enough for."""
    return max(1, min(MOST, tokens // _TOKENS))


def mark(x: Tensor) -> Tensor:
    """What tells the kinds of tokens `x` `[N, L, G, d]` apart, `[N, D]`: the first layer, free of context."""
    return x[:, 0].flatten(1)


def find(marks: Tensor) -> Tensor:
    """Centres `[K, D]` of the clusters of marks `[N, D]`, by k-means from spread-out centres."""
    centres = spread_out(marks, how_many(len(marks)))
    for _ in range(_ROUNDS):
        kind = nearest(marks, centres)
        count = torch.bincount(kind, minlength=len(centres))
        total = torch.zeros_like(centres).index_add_(0, kind, marks)
        centres = torch.where(count.unsqueeze(-1) > 0, total / count.clamp(min=1).unsqueeze(-1), centres)
    return centres


def spread_out(marks: Tensor, count: int) -> Tensor:
    """`count` of the marks, each drawn by its squared distance from those before it (k-means++).

    Drawn evenly, most centres would fall on common tokens, and rare ones would share a mean with strangers.
    """
    generator = torch.Generator().manual_seed(_SEED)
    energy = marks.square().sum(-1)
    apart = torch.full((len(marks),), torch.inf)  # squared distance to the nearest centre so far
    chosen = int(torch.randint(len(marks), (), generator=generator))
    centres = [marks[chosen]]
    while len(centres) < count:
        centre = centres[-1]
        apart = torch.minimum(apart, (energy - 2 * (marks @ centre) + energy[chosen]).clamp(min=0))
        if not bool(apart.any()):
            break  # every mark is a centre already
        chosen = int(torch.multinomial(apart, 1, generator=generator))
        centres.append(marks[chosen])
    return torch.stack(centres)


def nearest(marks: Tensor, centres: Tensor) -> Tensor:
    """The number of the centre next to each mark, `[N]`."""
    offset = centres.square().sum(-1) / 2
    return torch.cat([(part @ centres.T - offset).argmax(-1) for part in torch.split(marks, _CHUNK)])
