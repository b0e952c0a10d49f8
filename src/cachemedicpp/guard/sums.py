"""Fingerprints and sketches of the layers of a cache, summed up over units of positions.

A unit is a block. In layers with a sliding window it is one position, because a window moves by positions: a
block's fingerprint could not be checked once half of its positions are gone. What a window has dropped is
forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from cachemedicpp.cache.state import KVState
from cachemedicpp.guard import sketch
from cachemedicpp.guard.fingerprint import Weights, digest, weights


@dataclass(frozen=True, repr=False)
class Sums:
    """Of the positions from `since` on, in `layers`: all those with a sliding window, or all others."""

    layers: tuple[int, ...]  # M
    window: bool
    block: int
    since: int
    sums: Tensor  # [M, 2, B, n] int64: keys, values
    sketches: Tensor  # [M, 2, B, n, WIDTH] float64: to tell a good recomputation from another

    @classmethod
    def empty(cls, state: KVState, block: int, window: bool) -> Sums:
        layers = tuple(i for i in range(len(state)) if (i in state.windowed) == window)
        sums = torch.zeros(len(layers), 2, state.batch, 0, dtype=torch.int64)
        sketches = torch.zeros(*sums.shape, sketch.WIDTH, dtype=torch.float64)
        return cls(layers, window, block, 0, sums, sketches)

    @property
    def unit(self) -> int:
        return 1 if self.window else self.block

    def extend(self, state: KVState, start: int, end: int, mask: Tensor) -> Sums:
        """With positions `start … end - 1` as far as stored; `mask` `[B, end - start]`: real tokens."""
        since = min((state.start(layer) for layer in self.layers), default=0) // self.unit * self.unit
        known = self.sums.shape[-1]
        gone = min((since - self.since) // self.unit, known)
        more = -(-(end - since) // self.unit) - (known - gone)
        sums, sketches = pad(self.sums, (-gone, more)), pad(self.sketches, (0, 0, -gone, more))
        for at, kind, places, x, shares in self._stored(state, start, end):
            units = (places - since) // self.unit
            sums[at, kind].index_add_(1, units, shares)
            real = mask[:, mask.shape[1] - len(places) :]
            drawn = sketch.shares(x, real, places % self.block, self.block)
            sketches[at, kind].index_add_(1, units, drawn)
        return replace(self, since=since, sums=sums, sketches=sketches)

    def changed(self, state: KVState, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Row, layer, block and kind (0 keys, 1 values) of every unit that is not as it was written."""
        for at, kind, places, _, shares in self._stored(state, self.since, end):
            units = (places - self.since) // self.unit
            now = torch.zeros_like(self.sums[at, kind]).index_add_(1, units, shares)
            dropped = int(units[0])  # of this layer, and not of the others
            wrong = (now != self.sums[at, kind])[:, dropped:]
            for row, unit in wrong.nonzero().tolist():
                place = self.since + (dropped + unit) * self.unit
                yield row, self.layers[at], place // self.block, kind

    def renew(self, layer: int, kind: int, row: int, span: range, x: Tensor, real: Tensor) -> None:
        """Write, in place, what positions `span` of one row hold now, `x` `[1, H, n, d]`."""
        at, here = self._where(layer, kind, row, span)
        places = torch.arange(span.start, span.stop) % self.block
        units = torch.arange(here.stop - here.start).repeat_interleave(self.unit)[: len(span)]
        for stored, shares in (
            (self.sums, digest(x, weights(x, self.block).at(places.to(x.device))).cpu()),
            (self.sketches, sketch.shares(x, real, places, self.block)),
        ):
            stored[at][here] = 0
            stored[at][here].index_add_(0, units, shares[0])

    def sketch(self, layer: int, kind: int, row: int, span: range) -> Tensor:
        """What was written to positions `span` of one row, `[WIDTH]`."""
        at, here = self._where(layer, kind, row, span)
        return self.sketches[at][here].sum(0)

    def crop(self, length: int) -> Sums:
        """Of the first `length` positions, which are whole units."""
        since = min(self.since, length)
        keep = (length - since) // self.unit
        return replace(self, since=since, sums=self.sums[..., :keep], sketches=self.sketches[..., :keep, :])

    def select(self, rows: Tensor) -> Sums:
        return replace(self, sums=self.sums[:, :, rows], sketches=self.sketches[:, :, rows])

    def copy(self) -> Sums:
        return replace(self, sums=self.sums.clone(), sketches=self.sketches.clone())

    def tensors(self) -> dict[str, Tensor]:
        found = {"sums": self.sums.contiguous(), "sketches": self.sketches.contiguous()}
        if not self.window:
            return found
        where = {"layers": torch.tensor(self.layers), "since": torch.tensor(self.since)}
        return {f"window_{name}": x for name, x in (found | where).items()}

    def _where(self, layer: int, kind: int, row: int, span: range) -> tuple[tuple[int, int, int], slice]:
        """Where the units of positions `span` of one row stand: the whole of a unit, or of several."""
        first, last = ((place - self.since) // self.unit for place in (span.start, span.stop - 1))
        return (self.layers.index(layer), kind, row), slice(first, last + 1)

    def _stored(
        self, state: KVState, begin: int, end: int
    ) -> Iterator[tuple[int, int, Tensor, Tensor, Tensor]]:
        """The stored part of positions `begin … end - 1`: index, kind, places, numbers, shares."""
        known: tuple[object, Weights] | None = None
        for at, layer in enumerate(self.layers):
            start = state.start(layer)
            first = max(begin, start)
            places = torch.arange(first, end)
            for kind, x in enumerate(state[layer] if first < end else ()):
                part = x[:, :, first - start : end - start]
                if known is None or known[0] != (first, x.shape[1], x.shape[3]):
                    there = (places % self.block).to(x.device)
                    known = (first, x.shape[1], x.shape[3]), weights(x, self.block).at(there)
                yield at, kind, places, part, digest(part, known[1]).cpu()
