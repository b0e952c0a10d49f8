"""Elements and vectors that cannot be: found by how far they are from what everything else says, worst first.

`(P x)_i / sqrt(P_ii)` is the standardised residual of element `i` given all others, and
`(P x)_v P_vv⁻¹ (P x)_v` the squared distance of a whole head vector. One wrong element disturbs the
residuals of its neighbours too, so each round takes only those near the largest, imputes them, and looks
again. A vector that few wrong elements do not explain is lost as a whole (it was rotated, swapped, or is
another token's). A head in which most vectors of a block are like that, or in which much stays strange when
all of them are imputed, is left to the noise estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
FAR = 1.5  # times the strangest clean vector of its head, from which a vector is wrong …
_STANDS_OUT = 4.0  # … if it is so many times stranger than the vectors around it
IMPOSSIBLE = 2.0  # times the largest clean element: no element is larger (other text: up to 1.5)
_FEW = 0.25  # share of a vector's elements that may be wrong for the others to be right
_MOST = 0.75  # share of a block's vectors beyond which a head is damaged throughout
_SOME = 0.01  # share of elements found wrong in a block that calls for an explanation …
_EXPLAINED = 0.08  # … after which so much of what was strange may be left; noise leaves more
_ROUNDS = 8
_FORGOTTEN = 0.5  # share of heads in a window that do not look like themselves, beyond which none is kept
_SPREADS = 3  # times that what is not kept takes its neighbours along
_DEAFENING = (
    1.5  # typical element, of a head's RMS, beyond which a head block tells nothing; noise of 2: 1.35
)
_SURELY = 3.0  # times the bound of what can be believed: beyond it a vector that nothing has touched goes too
_HELPLESS = 0.25  # share of dense heads in a window beyond which single elements cannot be judged


@dataclass
class Found:
    """What was found: lost elements in stored coordinates, vectors of which nothing is kept, and head blocks
    that are damaged throughout."""

    lost: Tensor  # [N, L, G, d]
    wrong: Tensor  # [N, L, G]
    dense: Tensor  # [blocks, L, G]


def gross(stats: Statistics) -> Tensor:
    """Residuals given their own head beyond which elements are outliers, `[L, G]`."""
    return (_BEYOND * stats.loudest[0]).clamp(min=GROSS)


def in_head(
    tokens: Tokens,
    lost: Tensor,
    active: Tensor,
    P: Tensor,
    threshold: Tensor,
    far: Tensor,
    impossible: Tensor | None = None,
) -> Found:
    """Outliers of each head vector given the rest of it, under precisions `P` `[L, G, d, d]`: elements whose
    residual is beyond their head's `threshold` `[L, G]`, and vectors whose distance is `far` `[L, G]`.

    Looks only at `active` `[blocks, L]`. `lost` are elements known to be lost, `impossible` those
    that are, unless noise has made all of them so. Imputes into `tokens.x`.
    """
    first, here = tokens.x.clone(), active[tokens.block]  # [N, L]
    none = lost.new_zeros(tokens.blocks, *lost.shape[1:3])
    found = Found(lost.clone(), torch.zeros_like(lost[..., 0]), none)
    if impossible is not None:
        found.lost |= impossible
    for layer, group in product(layers_of(active), range(lost.shape[2])):
        rows = here[:, layer].nonzero().squeeze(1)
        limit = float(threshold[layer, group])
        _one_head(tokens, found, rows, P[layer, group], layer, group, limit)
    strange = distance_of(tokens.x, P, here)
    stands_out = strange > _STANDS_OUT * tokens.block_median(strange)[tokens.block]
    found.wrong |= (strange > far) & stands_out
    found.dense = tokens.block_mean(found.wrong.float()) > _MOST
    _settle(tokens, found, first, lost)
    return found


def _one_head(
    tokens: Tokens, found: Found, active: Tensor, P: Tensor, layer: int, group: int, threshold: float
) -> None:
    turn = tokens.turn(layer, group)
    lost, known = found.lost[:, layer, group], found.lost[:, layer, group].clone()
    x = turn.turn(tokens.x[:, layer, group])
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
        many = (lost[active] & ~known[active]).float().mean(-1) > _FEW
        found.wrong[active[many], layer, group] = True
        active = active[~many]
    tokens.x[:, layer, group] = turn.back(x)


def across_heads(
    field: Field,
    tokens: Tokens,
    found: Found,
    active: Tensor,
    first: Tensor,
    given: Tensor,
    misfit: Tensor,
    limits: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Outliers given all heads of the layer and its neighbours; refines what `in_head` imputed.

    `first` `[N, L, G, d]` is what was stored, `given` what of it is known to be lost, and of the head blocks
    `misfit` `[blocks, L, G]` nothing is kept; `limits` are `thresholds`. Where nothing is lost and nothing is
    beyond them, nothing is touched, to the bit. Heads that are dense are set aside (imputed whole from the
    others) while the rest is judged, and come back as they were.
    """
    layers, here = layers_of(active), active[tokens.block]
    known, already = given | misfit[tokens.block].unsqueeze(-1), found.lost.clone()
    alarming, suspect, far = limits
    z, strange = judge(field, replace(tokens, x=first), here)
    before = tokens.block_median(strange)
    nothing = not any(bool(x.any()) for x in (found.lost, found.dense, misfit))
    if nothing and not bool((z > alarming).any() | (strange >= far).any()):
        return
    alarm = bool(found.lost.any())
    aside = _set_aside(found, field, misfit)
    _settle(tokens, found, first, known)
    at = (aside & active)[tokens.block].any(-1).nonzero().squeeze(1)  # tokens that are still being judged
    now = torch.zeros_like(tokens.x[..., 0])  # how strange each vector was when it was last looked at
    for number in range(_ROUNDS):
        if not len(at):
            break
        gaps = found.lost[at] | (found.dense & aside.unsqueeze(-1))[tokens.block[at]].unsqueeze(-1)
        part = _imputed(field, tokens, at, gaps, (layers, layers[::-1]) if number == 0 else (layers,))
        deaf = ~(aside & active)[part.block][..., None, None]  # [n, L, 1, 1]
        z, strange = judge(field, part, here[at])
        now[at] = strange
        z = z.masked_fill(gaps | deaf, 0.0)
        alarm |= bool((z > alarming).any())
        z.masked_fill_(z <= suspect, 0.0)
        strange.masked_fill_(strange < far, 0.0)
        stands_out = strange > _STANDS_OUT * tokens.block_median(now)[part.block]
        new, worst = _worst(field, z, strange, gaps, deaf, stands_out)
        new &= alarm
        found.lost[at] |= new
        found.wrong[at] |= worst | ((found.lost[at] & ~already[at]).float().mean(-1) > _FEW)
        dense = (tokens.block_mean(found.wrong.float()) > _MOST) & ~found.dense & ~misfit
        if bool(dense.any()):
            found.dense |= dense
            aside = _set_aside(found, field, misfit)
        _settle(tokens, found, first, known)
        hit = new.flatten(1).any(-1) | worst.flatten(1).any(-1)
        at = at[hit | (strange > 0).flatten(1).any(-1)] if bool(hit.any()) else at[:0]
    found.dense |= _unexplained(field, tokens, found.lost, already, here, before) & ~misfit
    _settle(tokens, found, first, known)
    at = found.lost.flatten(1).any(-1).nonzero().squeeze(1)
    _imputed(field, tokens, at, found.lost[at], (layers,))
    _spare(field, tokens, found, first, known)
    tokens.x = torch.where(found.dense[tokens.block].unsqueeze(-1), first, tokens.x)


def _unexplained(
    field: Field, tokens: Tokens, lost: Tensor, already: Tensor, here: Tensor, before: Tensor
) -> Tensor:
    """Head blocks `[blocks, L, G]` in which much was imputed, and of what was strange `before` much is."""
    kept = (~lost).float().mean(-1)
    strange = judge(field, tokens, here, elements=False)[1] / kept.masked_fill(kept == 0, torch.nan)
    share = tokens.block_mean((lost & ~already).float().mean(-1))
    return (share > _SOME) & ~(tokens.block_median(strange) < (_EXPLAINED * before).clamp(min=FAR))


def _imputed(field: Field, tokens: Tokens, at: Tensor, gaps: Tensor, orders: Iterable[list[int]]) -> Tokens:
    """The tokens `at` `[n]` with their `gaps` `[n, L, G, d]` imputed, one sweep for each order of layers."""
    part = tokens.take(at)
    if bool(gaps.any()):
        for order in orders:
            sweep(field, part, gaps, order)
        tokens.x[at] = part.x
    return part


def _worst(
    field: Field, z: Tensor, strange: Tensor, gaps: Tensor, deaf: Tensor, stands_out: Tensor
) -> tuple[Tensor, Tensor]:
    """The elements `[n, L, G, d]` and vectors `[n, L, G]` that are farthest out in their window.

    Of residuals `z` and distances `strange`, 0 where they are no sign. What is imputed already (`gaps`) or
    not judged (`deaf`) is left out of `strange`, and so is a vector with a wrong element: perhaps no more of
    it is wrong.
    """
    whole = gaps.view(torch.uint8).amin(-1).bool()  # as `all`, which takes five times as long
    strange.masked_fill_(whole | deaf.flatten(2), 0.0)
    far = torch.where(stands_out, strange, 0.0).unsqueeze(-1)
    worst = _largest_in_window(far, field).squeeze(-1) & ~(z > 0).any(-1)
    return _largest_in_window(z, field), worst


def thresholds(field: Field, elements: bool, vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals `[L, G, 1]` that are alarming, and those that are suspect beside one, and the distance
    `[L, G]` of a vector that is far; infinite for what is not looked for."""
    beyond = _BEYOND * field.stats.loudest[1].unsqueeze(-1)
    far = FAR * field.stats.strangest[1]
    if not elements:
        beyond = torch.full_like(beyond, torch.inf)
    if not vectors:
        far = torch.full_like(far, torch.inf)
    return beyond.clamp(min=_ALARM), beyond.clamp(min=_SUSPECT), far


def too_loud(tokens: Tokens, found: Found, active: Tensor) -> Tensor:
    """Head blocks `[blocks, L, G]` of those in `active` `[blocks, L]` that are so loud that they tell nothing
    of what they were."""
    here = active[tokens.block]  # [N, L]
    size = tokens.x[here].abs().masked_fill(found.lost[here] & ~found.wrong[here].unsqueeze(-1), torch.nan)
    typical = torch.full_like(tokens.x[..., 0], torch.nan)
    typical[here] = size.nanmedian(-1).values
    return tokens.block_median(typical) > _DEAFENING


def discard(
    field: Field, tokens: Tokens, found: Found, misfit: Tensor, loud: Tensor
) -> tuple[Tensor, Tensor]:
    """Head blocks `[blocks, L, G]` of which nothing is kept, and layers `[blocks, L]` where nothing can tell
    what any of it was: most heads of their window do not look like themselves (`misfit` `[blocks, L, G]`).

    A single such head is left to the noise estimate, unless it is too `loud` `[blocks, L, G]`.
    """
    without = loud.clone()
    unknown = torch.zeros_like(misfit[..., 0])
    for _ in range(_SPREADS):
        unknown |= _share_in_window(misfit | without, field) > _FORGOTTEN
        without |= unknown.unsqueeze(-1)
    found.dense &= ~without
    here = without[tokens.block]
    found.wrong |= here
    found.lost |= here.unsqueeze(-1)
    tokens.x = tokens.x.masked_fill(here.unsqueeze(-1), 0.0)
    return without, unknown


def unbelievable(field: Field, tokens: Tokens, here: Tensor, noise: float, repaired: Tensor) -> Tensor:
    """Vectors `[N, L, G]` that no clean one comes near, nor one that carries no more than this `noise`.

    Looks at the tokens and layers `here` `[N, L]`. Those that were not `repaired` `[N, L, G]` have to be
    farther out: they may be as they were.
    """
    bound = FAR * field.stats.strangest[0] + noise**2 * field.own_gain
    strange = distance_of(tokens.x, field.head_precision, here)
    return strange > bound * torch.where(repaired, 1.0, _SURELY)


def distance(x: Tensor, P: Tensor) -> Tensor:
    """Squared distance, about 1, of head vectors `x` `[N, L, G, d]` under `P` `[L, G, d, d]`: `[N, L, G]`."""
    return torch.einsum("nlgi,lgij,nlgj->nlg", x, P, x) / x.shape[-1]


def distance_of(x: Tensor, P: Tensor, here: Tensor) -> Tensor:
    """The same for the tokens and layers `here` `[N, L]`; NaN elsewhere."""
    found = torch.full_like(x[..., 0], torch.nan)
    for layer in layers_of(here):
        rows, this = here[:, layer].nonzero().squeeze(1), slice(layer, layer + 1)
        found[rows, this] = distance(x[rows, this], P[this])
    return found


def _settle(tokens: Tokens, found: Found, first: Tensor, known: Tensor) -> None:
    """Of a wrong vector nothing is kept; a head block that is damaged throughout is as it was."""
    dense = found.dense[tokens.block]
    found.wrong &= ~dense
    at = (found.wrong | dense).nonzero(as_tuple=True)  # head vectors
    lost, whole = found.lost[at], found.wrong[at].unsqueeze(-1)
    x = tokens.x[at].masked_fill(whole & ~lost.all(-1, keepdim=True), 0.0)
    tokens.x[at] = torch.where(whole, x, first[at])
    found.lost[at] = torch.where(whole, True, known[at])


def _spare(field: Field, tokens: Tokens, found: Found, first: Tensor, known: Tensor) -> None:
    """Vectors that were taken for wrong, and fit what the others say now, are as they were."""
    at = found.wrong.flatten(1).any(-1).nonzero().squeeze(1)
    if not len(at):
        return
    strange = torch.full_like(tokens.x[..., 0], torch.inf)
    strange[at] = distance(first[at] - tokens.x[at], field.given)
    fits = found.wrong & (strange < field.stats.strangest[1]) & ~known.any(-1)
    found.wrong &= ~fits
    found.lost &= ~fits.unsqueeze(-1)
    tokens.x = torch.where(fits.unsqueeze(-1), first, tokens.x)


def own_residuals(x: Tensor, P: Tensor, turn: Turn) -> Tensor:
    """Standardised |leave-one-out residuals| of vectors `x` `[N, d]` (stored coordinates) under `P`."""
    return turn.turn(turn.back(x) @ P).abs() / turn.diagonal(P).sqrt()


def judge(field: Field, tokens: Tokens, here: Tensor, elements: bool = True) -> tuple[Tensor, Tensor]:
    """Standardised |residuals| `[N, L, G, d]` in stored coordinates, and squared distances `[N, L, G]`.

    Given everything else, of the tokens and layers `here` `[N, L]`; zero elsewhere, and for residuals
    also without `elements`.
    """
    z, strange = torch.zeros_like(tokens.x), torch.zeros_like(tokens.x[..., 0])
    d = z.shape[-1]
    for layer in layers_of(here):
        precision = field.precision(layer)
        rows = here[:, layer].nonzero().squeeze(1)
        pull = field.gradient(tokens.x, layer, rows).view(len(rows), -1, d)
        strange[rows, layer] = (torch.einsum("ngi,gij->ngj", pull, field.conditional[layer]) * pull).mean(-1)
        for group in range(z.shape[2] if elements else 0):
            turn = tokens.turn(layer, group).rows(rows)
            spread = turn.diagonal(precision.own(group, d)).sqrt()
            z[rows, layer, group] = (turn.turn(pull[:, group]) / spread).abs()
    return z, strange


def clean_extremes(field: Field, tokens: Tokens) -> Iterator[tuple[Tensor, Tensor]]:
    """Residuals `[N, L, G, d]` and distances `[N, L, G]` given their own head, then given all heads."""
    own = torch.empty_like(tokens.x)
    L, G = own.shape[1:3]
    for layer, group in product(range(L), range(G)):
        turn = tokens.turn(layer, group)
        x = turn.turn(tokens.x[:, layer, group])
        own[:, layer, group] = own_residuals(x, field.head_precision[layer, group], turn)
    yield own, distance(tokens.x, field.head_precision)
    yield judge(field, tokens, torch.ones_like(own[:, :, 0, 0], dtype=torch.bool))


def layers_of(active: Tensor) -> list[int]:
    """The layers in which anything of `active` `[…, L]` is."""
    found: list[int] = active.any(0).nonzero().squeeze(1).tolist()
    return found


def _largest(z: Tensor, threshold: float) -> Tensor:
    return (z > threshold) & (z >= _NEAR * z.amax(-1, keepdim=True))


def _largest_in_window(z: Tensor, field: Field) -> Tensor:
    """Like `_largest`, against the largest residual of the token in the layers that a layer is coupled to."""
    top = z.amax((2, 3))  # [N, L]
    reach = field.stats.reach
    if reach:
        top = torch.nn.functional.max_pool1d(top.unsqueeze(1), 2 * reach + 1, 1, reach).squeeze(1)
    return (z > 0) & (z >= _NEAR * top[:, :, None, None])


def _set_aside(found: Found, field: Field, misfit: Tensor) -> Tensor:
    """Layers `[blocks, L]` in whose window few enough heads are dense for the others to be judged.

    In all other layers every head counts as dense, but those of which nothing is kept, `misfit`.
    """
    aside = _share_in_window(found.dense, field) < _HELPLESS
    found.dense |= ~aside.unsqueeze(-1) & ~misfit
    return aside


def _share_in_window(heads: Tensor, field: Field) -> Tensor:
    """The share of the heads `[blocks, L, G]` in each layer's window, `[blocks, L]`."""
    share, reach = heads.float().mean(-1).unsqueeze(1), field.stats.reach
    return torch.nn.functional.avg_pool1d(share, 2 * reach + 1, 1, reach, count_include_pad=False).squeeze(1)
