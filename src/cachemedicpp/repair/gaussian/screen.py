"""The cheap look at everything: which blocks of positions, in which layers, may be damaged.

Layer by layer and straight from what is stored, so that a clean cache costs little and is not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.gaussian import exact, noise, outliers, sinks
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.tokens import blocks_of, by_block, median

_WILD = 30.0  # times a head's RMS: a vector has such a norm only if some element is out of all proportion


@dataclass(frozen=True)
class Screened:
    """A piece of one sequence, `T` positions, after the look."""

    real: Tensor  # [T]: not padding
    known: Tensor  # [T]: real, and as far as calibration has seen
    sink: Tensor  # [T]
    lost: Tensor  # [T]: something in it is no number, out of all proportion, or zero
    block: Tensor  # [T]: number of the block of positions
    active: Tensor  # [blocks, L]: what may be damaged, and the layers that tell about it
    louder: Tensor  # [L, G]: log of how much larger ordinary vectors are here than in clean text

    @property
    def chosen(self) -> Tensor:
        """Positions to look at closely `[T]`: all others keep their bits."""
        return (self.active.any(-1)[self.block] & self.known) | self.sink | self.lost

    def take(self, where: Tensor) -> Screened:
        """Some of the positions `[n]`; their blocks are numbered anew."""
        used, block = torch.unique(self.block[where], return_inverse=True)
        real, known, sink, lost = (x[where] for x in (self.real, self.known, self.sink, self.lost))
        return Screened(real, known, sink, lost, block, self.active[used], self.louder)


def screen(
    field: Field, layers: Sequence[KV], real: Tensor, positions: Tensor, zeros: bool, flips: bool
) -> Screened:
    """Look at one sequence's `layers`, keys and values `[H_kv, T, d]` each; `real`, `positions` are `[T]`.

    A block may be damaged if some token, or most of them a little, is stranger than clean text ever was, or
    has lost something: `zeros` says whether zeros count as lost, `flips` whether impossible numbers do.
    """
    stats = field.stats
    known = real & stats.known(positions)
    number, count = blocks_of(known.unsqueeze(0), (positions - positions[:1]).unsqueeze(0))
    shape = (len(real), stats.layers, stats.groups)
    rms = torch.empty(shape, device=real.device)
    lost, impossible, strange = torch.zeros(3, *shape, dtype=torch.bool, device=real.device)

    def centred() -> Iterator[Tensor]:
        turn = stats.pairs.at(positions, 0)
        for layer, kv in enumerate(layers):
            if layer and not torch.equal(stats.theta[layer], stats.theta[layer - 1]):
                turn = stats.pairs.at(positions, layer)
            x = torch.cat(kv).transpose(0, 1).float()  # [T, G, d]
            scale = stats.scale[layer].unsqueeze(-1)
            rms[:, layer] = _rms(x)
            if not bool((rms[:, layer] < _WILD * stats.scale[layer]).all()):
                absurd = exact.absurd(x, scale)
                lost[:, layer] = absurd.any(-1)
                x = x.masked_fill(absurd, 0.0)
                rms[:, layer] = _rms(x)
            size = x.abs()
            if zeros:
                lost[:, layer] |= size.amin(-1) == 0
            if flips:
                impossible[:, layer] = (size - outliers.IMPOSSIBLE * stats.limit[layer] * scale).amax(-1) > 0
            x = x / scale
            x[:, : stats.groups // 2] = turn.back(x[:, : stats.groups // 2])
            x -= stats.mean[layer]
            own = outliers.distance(x.unsqueeze(1), field.head_precision[layer : layer + 1]).squeeze(1)
            strange[:, layer] = own > outliers.FAR * stats.strangest[0, layer]
            yield x

    seen = field.glance(centred())  # [T, L, G]
    sink = sinks.have_norms(rms, stats) & known
    ordinary = (known & ~sink)[:, None, None]
    strange |= (seen > outliers.FAR * stats.glance[0]) | impossible
    found = (strange & ordinary) | (lost & known[:, None, None])
    some = by_block(found.float(), number[0], count, lambda rows: rows.amax(0)) > 0
    seen = seen.masked_fill(~ordinary, torch.nan)
    most = by_block(seen, number[0], count, median) > noise.GATE * stats.glance[1]
    active = near((some | most).any(-1), stats.reach)
    louder = sinks.louder(rms[known & ~sink], stats)
    return Screened(real, known, sink, lost.flatten(1).any(-1), number[0], active, louder)


def _rms(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1) / x.shape[-1] ** 0.5
    return norm


def near(found: Tensor, reach: int) -> Tensor:
    """`[blocks, L]` with the neighbours of every layer that was found."""
    spread = torch.nn.functional.max_pool1d(found.float().unsqueeze(1), 2 * reach + 1, 1, reach)
    return spread.squeeze(1) > 0
