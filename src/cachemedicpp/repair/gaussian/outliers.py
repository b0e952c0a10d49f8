"""Elements that cannot be: found by leave-one-out residuals, largest first, and imputed as they are found.

`(P x)_i / sqrt(P_ii)` is the standardised residual of element `i` given all others. One wrong element
disturbs its neighbours' residuals too, so each round takes only those near the largest, imputes them, and
looks again. A head whose elements are wrong by the dozen is not sparsely damaged: it is left to the noise
estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from cachemedicpp.cache.rotation import Turn
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.impute import fill, sweep
from cachemedicpp.repair.gaussian.statistics import Statistics
from cachemedicpp.repair.gaussian.tokens import Tokens

_NEAR = 0.5  # of the largest residual: what is taken in one round
GROSS = 8.0  # residual, given the rest of its own head, that hardly any clean element has
_ALARM = 14.0  # the same given all heads: a sequence with such an element is damaged …
_SUSPECT = 8.0  # … and then its elements beyond this are outliers too
_BEYOND = 1.25  # … and so many times the loudest clean element of its head
SPARSE = 0.08  # share of a head's elements, over a block of positions, beyond which damage is dense
_ROUNDS = 6
_HELPLESS = 0.25  # share of dense heads in a window beyond which single elements cannot be judged


@dataclass
class Sparse:
    """What was found: lost elements in stored coordinates, and head blocks that are damaged throughout."""

    lost: Tensor  # [N, L, G, d]
    dense: Tensor  # [blocks, L, G]


def gross(stats: Statistics) -> Tensor:
    """Residuals given their own head beyond which elements are outliers, `[L, G]`."""
    return (_BEYOND * stats.loudest[0]).clamp(min=GROSS)


def in_head(tokens: Tokens, lost: Tensor, P: Tensor, threshold: Tensor, sparse: float = SPARSE) -> Sparse:
    """Outliers of each head vector given the rest of it, under precisions `[L, G, d, d]`: residuals beyond
    their head's `threshold` `[L, G]`.

    `lost` are elements known to be lost. Imputes into `tokens.x`.
    """
    found = Sparse(lost.clone(), torch.zeros(tokens.blocks, *lost.shape[1:3], dtype=torch.bool))
    for layer in range(lost.shape[1]):
        for group in range(lost.shape[2]):
            limit = float(threshold[layer, group])
            _one_head(tokens, found, P[layer, group], layer, group, limit, sparse)
    return found


def _one_head(
    tokens: Tokens, found: Sparse, P: Tensor, layer: int, group: int, threshold: float, sparse: float
) -> None:
    turn = tokens.turn(layer, group)
    lost, known = found.lost[:, layer, group], found.lost[:, layer, group].clone()
    first = turn.turn(tokens.x[:, layer, group])
    x = first.clone()
    active = torch.arange(len(x))
    for _ in range(_ROUNDS):
        gaps = active[lost[active].any(-1)]
        if len(gaps):
            x[gaps] = fill(x[gaps], lost[gaps], P, turn.rows(gaps))
        z = own_residuals(x[active], P, turn.rows(active))
        new = _largest(z.masked_fill(lost[active], 0.0), threshold)
        hit = new.any(-1)
        if not bool(hit.any()):
            break
        active, new = active[hit], new[hit]
        lost[active] |= new
        share = tokens.block_mean((lost & ~known).float().mean(-1))  # [blocks]
        dense = share > sparse
        if bool(dense.any()):
            found.dense[:, layer, group] |= dense
            spoiled = dense[tokens.block]
            lost[spoiled] = known[spoiled]
            x[spoiled] = first[spoiled]
            gaps = (spoiled & known.any(-1)).nonzero().squeeze(1)
            if len(gaps):
                x[gaps] = fill(x[gaps], known[gaps], P, turn.rows(gaps))
            active = active[~spoiled[active]]
            if not len(active):
                break
    tokens.x[:, layer, group] = turn.back(x)


def across_heads(field: Field, tokens: Tokens, found: Sparse) -> None:
    """Outliers given all heads of the layer and its neighbours; refines what `in_head` imputed.

    A sequence in which nothing is lost and no residual is alarming is not touched, to the bit. Heads that are
    dense are set aside (imputed whole from the others) while the rest is judged, and come back as they were.
    Where too many are dense, nothing is judged. Sequences are judged one by one: what is found in one does
    not depend on its neighbours in the batch.
    """
    held = tokens.x.clone()
    layers = range(tokens.x.shape[1])
    known = found.lost.clone()
    aside = _aside(found.dense, field)
    alarm = _rows_with(found.lost, tokens)
    beyond = _BEYOND * field.stats.loudest[1].unsqueeze(-1)  # [L, G, 1]
    alarming, suspect = beyond.clamp(min=_ALARM), beyond.clamp(min=_SUSPECT)
    active = _rows_with(aside[tokens.block], tokens)  # sequences that are still being judged
    judged = torch.empty_like(tokens.x)  # residuals as of each sequence's last round
    for number in range(_ROUNDS):
        at = active[tokens.row].nonzero().squeeze(1)
        if not len(at):
            break
        part = tokens.take(at)
        hidden = (found.dense & aside.unsqueeze(-1))[part.block].unsqueeze(-1)  # [n, L, G, 1]
        gaps = found.lost[at] | hidden
        if bool(gaps.any()):
            for order in (layers, reversed(layers)) if number == 0 else (layers,):
                sweep(field, part, gaps, order)
            tokens.x[at] = part.x
        stale = layers if number == 0 else _near(gaps.any(0).flatten(1).any(-1), field)
        judged[at] = z = residuals(field, part, stale, judged[at])
        z = z.masked_fill(gaps, 0.0)
        z.masked_fill_(~aside[part.block].unsqueeze(-1).unsqueeze(-1), 0.0)
        alarm |= _rows_with(z > alarming, part, len(alarm))
        z.masked_fill_(z <= suspect, 0.0)
        new = _largest_in_window(z, field) & alarm[part.row][:, None, None, None]
        active = _rows_with(new, part, len(alarm))
        found.lost[at] |= new
        share = tokens.block_mean((found.lost & ~known).float().mean(-1))  # [blocks, L, G]
        dense = share > SPARSE
        if bool((dense & ~found.dense).any()):
            found.dense |= dense
            spoiled = dense[tokens.block].unsqueeze(-1)
            found.lost = torch.where(spoiled, known, found.lost)
            aside = _aside(found.dense, field)
            helpless = ~aside[tokens.block].unsqueeze(-1).unsqueeze(-1)
            found.lost = torch.where(helpless, known, found.lost)
    at = active[tokens.row].nonzero().squeeze(1)
    if len(at):
        part = tokens.take(at)
        sweep(field, part, found.lost[at], layers)
        tokens.x[at] = part.x
    tokens.x = torch.where(found.dense[tokens.block].unsqueeze(-1), held, tokens.x)


def own_residuals(x: Tensor, P: Tensor, turn: Turn) -> Tensor:
    """Standardised |leave-one-out residuals| of vectors `x` `[N, d]` (stored coordinates) under `P`."""
    return turn.turn(turn.back(x) @ P).abs() / turn.diagonal(P).sqrt()


def residuals(field: Field, tokens: Tokens, layers: Iterable[int], out: Tensor) -> Tensor:
    """Standardised |leave-one-out residuals| in stored coordinates: `out` `[N, L, G, d]`, `layers` new."""
    d = out.shape[-1]
    for layer in layers:
        gradient = field.gradient(tokens.x, layer).view(len(out), -1, d)
        precision = field.precision(layer)
        for group in range(out.shape[2]):
            turn = tokens.turn(layer, group)
            spread = turn.diagonal(precision.own(group, d)).sqrt()
            out[:, layer, group] = (turn.turn(gradient[:, group]) / spread).abs()
    return out


def both_residuals(field: Field, tokens: Tokens) -> Iterator[Tensor]:
    """Residuals `[N, L, G, d]` of every element given the rest of its own head, then given all heads."""
    own = torch.empty_like(tokens.x)
    L, G = own.shape[1:3]
    for layer, group in product(range(L), range(G)):
        turn = tokens.turn(layer, group)
        x = turn.turn(tokens.x[:, layer, group])
        own[:, layer, group] = own_residuals(x, field.head_precision[layer, group], turn)
    yield own
    yield residuals(field, tokens, range(L), torch.empty_like(tokens.x))


def _largest(z: Tensor, threshold: float) -> Tensor:
    return (z > threshold) & (z >= _NEAR * z.amax(-1, keepdim=True))


def _rows_with(mask: Tensor, tokens: Tokens, rows: int | None = None) -> Tensor:
    """Which of the sequences have any token where `mask` `[N, …]` holds."""
    count = rows if rows is not None else int(tokens.row.max()) + 1 if len(tokens) else 0
    found = torch.zeros(count, dtype=torch.bool)
    found[tokens.row[mask.flatten(1).any(-1)]] = True
    return found


def _largest_in_window(z: Tensor, field: Field) -> Tensor:
    """Like `_largest`, against the largest residual of the token in the layers that a layer is coupled to."""
    top = z.amax((2, 3))  # [N, L]
    reach = field.stats.reach
    if reach:
        top = torch.nn.functional.max_pool1d(top.unsqueeze(1), 2 * reach + 1, 1, reach).squeeze(1)
    return (z > 0) & (z >= _NEAR * top[:, :, None, None])


def _near(changed: Tensor, field: Field) -> list[int]:
    """Layers in whose window some layer changed, of `changed` `[L]`."""
    reach = field.stats.reach
    spread = changed.float()[None, None]
    if reach:
        spread = torch.nn.functional.max_pool1d(spread, 2 * reach + 1, 1, reach)
    found: list[int] = spread[0, 0].nonzero().squeeze(1).tolist()
    return found


def _aside(dense: Tensor, field: Field) -> Tensor:
    """Layers `[blocks, L]` in whose window few enough heads are dense for the others to be judged."""
    share = dense.float().mean(-1).unsqueeze(1)  # [blocks, 1, L]
    reach = field.stats.reach
    near = torch.nn.functional.avg_pool1d(share, 2 * reach + 1, 1, reach, count_include_pad=False)
    return near.squeeze(1) < _HELPLESS
