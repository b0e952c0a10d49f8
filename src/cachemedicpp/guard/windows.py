"""Fingerprints of layers with a sliding window: one per position, because a window moves by positions.

A block's fingerprint could not be checked once half of its positions are gone. So these layers remember a sum
and a sketch for every position that they still store, and nothing about those they have dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.guard import sketch
from cachemedicpp.guard.fingerprint import digest, weights


@dataclass(frozen=True, repr=False)
class Windows:
    """Of positions `since … end - 1`: sums and sketches of the layers `layers`."""

    layers: Tensor  # [M] the layers that have a window
    since: Tensor  # [] the first position that one of them stores
    sums: Tensor  # [M, 2, B, S] int64
    sketches: Tensor  # [M, 2, B, S, WIDTH] float32

    @classmethod
    def empty(cls, state: KVState) -> Windows:
        layers = torch.tensor(state.windowed, dtype=torch.long)
        shape = (len(layers), 2, state.batch, 0)
        sums = torch.zeros(shape, dtype=torch.int64)
        return cls(layers, torch.tensor(0), sums, torch.zeros(*shape, sketch.WIDTH))

    @property
    def end(self) -> int:
        return int(self.since) + int(self.sums.shape[-1])

    def extend(self, state: KVState, count: int, mask: Tensor, block: int) -> Windows:
        """With the `count` positions that came last, as far as they are stored, without the dropped ones."""
        if not len(self.layers):
            return self
        end = self.end + count
        since = min(state.start(layer) for layer in self.layers.tolist())
        sums = self.sums.new_zeros(*self.sums.shape[:3], end - since)
        sketches = self.sketches.new_zeros(*sums.shape, sketch.WIDTH)
        if (known := self.end - since) > 0:
            sums[..., :known], sketches[..., :known, :] = (
                self.sums[..., -known:],
                self.sketches[..., -known:, :],
            )
        for index, kind, first, x in self._stored(state, self.end, end):
            places = torch.arange(first, end) % block
            sums[index, kind, :, first - since :] = _shares(x, places, block)
            drawn = sketch.shares(x, mask[:, mask.shape[1] - (end - first) :].bool(), places, block)
            sketches[index, kind, :, first - since :] = drawn.float()
        return replace(self, since=torch.tensor(since), sums=sums, sketches=sketches)

    def wrong(self, state: KVState, block: int) -> Iterator[tuple[int, int, int, int]]:
        """Row, layer, block and kind (0 keys, 1 values) of every block with a position that has changed."""
        since, end = int(self.since), self.end
        for index, kind, first, x in self._stored(state, since, end):
            now = _shares(x, torch.arange(first, end) % block, block)
            for row, place in (now != self.sums[index, kind, :, first - since :]).nonzero().tolist():
                yield row, int(self.layers[index]), (first + place) // block, kind

    def renewed(
        self, x: Tensor, row: int, layer: int, kind: int, span: range, real: Tensor, block: int
    ) -> Windows:
        """With new sums and sketches of the stored positions `span`, which now hold `x` `[1, H, n, d]`."""
        index, since = self.layers.tolist().index(layer), int(self.since)
        places = torch.arange(span.start, span.stop) % block
        here = slice(span.start - since, span.stop - since)
        sums, sketches = self.sums.clone(), self.sketches.clone()
        sums[index, kind, row, here] = _shares(x, places, block)[0]
        sketches[index, kind, row, here] = sketch.shares(x, real, places, block)[0].float()
        return replace(self, sums=sums, sketches=sketches)

    def sketch(self, row: int, layer: int, kind: int, span: range) -> Tensor:
        """What the stored positions `span` looked like together, `[WIDTH]`."""
        index, since = self.layers.tolist().index(layer), int(self.since)
        return self.sketches[index, kind, row, span.start - since : span.stop - since].double().sum(0)

    def crop(self, length: int) -> Windows:
        since = min(int(self.since), length)
        keep = length - since
        sums, sketches = self.sums[..., :keep], self.sketches[..., :keep, :]
        return replace(self, since=torch.tensor(since), sums=sums, sketches=sketches)

    def select(self, rows: Tensor) -> Windows:
        return replace(self, sums=self.sums[:, :, rows], sketches=self.sketches[:, :, rows])

    def tensors(self) -> dict[str, Tensor]:
        return {f"window_{name}": getattr(self, name) for name in ("layers", "since", "sums", "sketches")}

    def _stored(self, state: KVState, begin: int, end: int) -> Iterator[tuple[int, int, int, Tensor]]:
        """The stored part of positions `begin … end - 1`: index, kind, its first position, numbers."""
        for index, layer in enumerate(self.layers.tolist()):
            start = state.start(layer)
            first = max(begin, start)
            for kind, x in enumerate(state[layer]):
                yield index, kind, first, x[:, :, first - start : end - start]


def _shares(x: Tensor, places: Tensor, block: int) -> Tensor:
    return digest(x, weights(x, block).at(places.to(x.device))).cpu()
