"""Lost elements from the ones that remain: conditional means of a Gaussian, many small solves at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from cachemedicpp.cache.rotation import Turn
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.tokens import Tokens

_SIZES = (2, 4, 8, 16, 32)  # vectors are solved together with others of about as many lost elements
_CHUNK = 1 << 22  # numbers in one group of matrices


def fill(x: Tensor, lost: Tensor, P: Tensor, turn: Turn) -> Tensor:
    """`x` `[N, d]` with lost elements replaced by their mean given the others, under precision `P`.

    Elements are lost in stored coordinates; `x` and the result are in them, and `P` is not: it is turned
    with each token.
    """
    known = x.masked_fill(lost, 0.0)
    gradient = turn.turn(turn.back(known) @ P)
    return known + correction(gradient, lost, P, turn)


def correction(gradient: Tensor, lost: Tensor, P: Tensor, turn: Turn) -> Tensor:
    """The change `[N, d]` of the lost elements that brings their gradient to zero: `-P_mm⁻¹ g_m`."""
    change = torch.zeros_like(gradient)
    whole = lost.all(-1).nonzero().squeeze(1)  # a whole vector: one factor for all, whatever their positions
    if len(whole):
        turned = turn.rows(whole)
        solved = torch.cholesky_solve(turned.back(gradient[whole]).T, torch.linalg.cholesky(P)).T
        change[whole] = turned.turn(-solved)
    for rows, size in _groups(lost):
        which = lost[rows]
        index = torch.argsort(which.to(torch.int8), dim=-1, descending=True, stable=True)[:, :size]  # [n, m]
        live = which.gather(1, index)
        both = live.unsqueeze(2) & live.unsqueeze(1)
        A = torch.where(both, turn.rows(rows).block(P, index), torch.eye(size, device=P.device))
        b = gradient[rows].gather(1, index).masked_fill(~live, 0.0)
        solved = torch.cholesky_solve(b.unsqueeze(-1), torch.linalg.cholesky(A)).squeeze(-1)
        change[rows] = torch.zeros_like(change[rows]).scatter_(1, index, -solved * live)
    return change


def sweep(field: Field, tokens: Tokens, lost: Tensor, layers: Iterable[int]) -> None:
    """One pass of block Gauss-Seidel: each head's lost elements `[N, L, G, d]` given everything else.

    Writes into `tokens.x`. Passes converge to the joint conditional mean over all lost elements.
    """
    d = tokens.x.shape[-1]
    for layer in layers:
        rows = lost[:, layer].flatten(1).any(-1).nonzero().squeeze(1)
        if not len(rows):
            continue
        precision = field.precision(layer)
        gradient = tokens.x[rows, precision.window].flatten(1) @ precision.rows.T  # [n, F]
        for group in range(lost.shape[2]):
            gaps = lost[rows, layer, group]
            some = gaps.any(-1).nonzero().squeeze(1)
            if not len(some):
                continue
            turn = tokens.turn(layer, group).rows(rows[some])
            pull = turn.turn(gradient[some, group * d : (group + 1) * d])
            change = turn.back(correction(pull, gaps[some], precision.own(group, d), turn))
            tokens.x[rows[some], layer, group] += change
            gradient[some] += change @ precision.column(group, d).T


def _groups(lost: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Rows with about equally many lost elements, in chunks that fit in memory, and the largest count."""
    count = lost.sum(-1)
    low = 0
    for high in (*_SIZES, lost.shape[1] - 1):
        rows = ((count > low) & (count <= high)).nonzero().squeeze(1)
        low = high
        if len(rows):
            size = int(count[rows].max())
            yield from ((part, size) for part in torch.split(rows, max(1, _CHUNK // (size * lost.shape[1]))))
