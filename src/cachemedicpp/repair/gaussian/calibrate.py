"""Learning the statistics of operator G from ordinary text: moments, sinks, how quiet clean caches are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.rotation import Pairs
from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.gaussian import kinds, outliers, regress, sinks
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.prior import Prior, features
from cachemedicpp.repair.gaussian.statistics import SinkClass, Statistics
from cachemedicpp.repair.gaussian.tokens import blocks_of, gather, table
from homeostat.core.errors import UserError
from homeostat.core.progress import track

_HELD_OUT = 8  # one window in so many is kept for measuring how quiet clean text is
ENOUGH = 6  # tokens wanted for each dimension of a window
_SHORT = 8  # length of the windows that only look for sinks
_SCALE_WINDOWS = 16  # windows that settle the typical norms
_KEPT_BYTES = 2**31  # of caches of the text, which is looked at several times: all of it on the default model


@torch.no_grad()
def calibrate(
    model: Any, windows: Tensor, reach: int | None = None, batch: int = 8, other: Tensor | None = None
) -> Statistics:
    """Statistics from `windows` `[N, T]` of token ids, for a model with a dynamic KV cache.

    `reach` is how many neighbouring layers on either side inform a head; by default 1, or 0 where the
    text is too short to estimate that many covariances. With windows of `other` kinds of text, the prior
    given the tokens is learned too, from both.
    """
    geometry = Geometry.of(model)
    _check(model, windows, geometry)
    held_out = windows[::_HELD_OUT]
    learned = windows[[i for i in range(len(windows)) if i % _HELD_OUT]]
    L, G, d = geometry.layers, 2 * geometry.kv_heads, geometry.head_dim
    pairs = Pairs.probe(model, L, d)
    reading = _Reading(model, learned, batch)
    scale = _typical_norm(reading)  # [L, G]
    if reach is None:
        reach = int(learned.numel() >= ENOUGH * 3 * G * d)
    empty = Statistics(
        scale=scale,
        mean=torch.zeros(L, G, d),
        covariance=torch.zeros(2 * reach + 1, L, 0, 0),
        quiet=torch.zeros(2, L, G),
        loudest=torch.zeros(2, L, G),
        strangest=torch.zeros(2, L, G),
        glance=torch.zeros(2, L, G),
        limit=torch.zeros(L, G, d),
        kinds=torch.zeros(0, L, G, d),
        share=torch.zeros(0),
        theta=pairs.theta,
        partner=pairs.partner,
        count=torch.tensor(0),
        length=torch.tensor(windows.shape[1] if pairs.none else 0),
    )
    stats = _learned(model, empty, reading, learned, batch)
    stats = _measured(stats, reading, _Reading(model, held_out, batch, kept_bytes=0))
    if other is None:
        return stats
    readings = [reading, _Reading(model, other, batch)] if len(other) else [reading]
    return replace(stats, prior=_prior(model, stats, readings))


def _learned(model: Any, empty: Statistics, reading: _Reading, learned: Tensor, batch: int) -> Statistics:
    """`empty`, which has scales and rotations, with moments, kinds and sinks of the windows `learned`."""
    L, G, d = empty.mean.shape
    scale = empty.scale
    centres = kinds.find(
        torch.cat(
            [
                kinds.mark(_table(stored, ~_off_norm(stored, scale), empty).x)
                for stored in reading.caches("finding kinds of tokens")
            ]
        )
    )
    moments = _Moments(L, G * d, empty.reach, len(centres))
    sink_rows: list[Tensor] = []
    norms: list[Tensor] = []
    limit = torch.zeros(L, G, d)
    for stored in reading.caches("learning statistics"):
        is_sink = _off_norm(stored, scale)
        every = torch.ones_like(is_sink)
        x = _table(stored, every, empty).x  # [b T, L, G, d]
        ordinary = x[~is_sink.flatten()]
        limit = torch.maximum(limit, empty.pairs.length(ordinary, keys=G // 2).amax(0))
        moments.add(ordinary.flatten(2), kinds.nearest(kinds.mark(ordinary), centres))
        sink_rows.append(x[is_sink.flatten()])
        norms.append(sinks.log_norms(stored, scale)[~is_sink])
    short = learned[:, : learned.shape[1] // _SHORT * _SHORT].reshape(-1, _SHORT)[
        :: learned.shape[1] // _SHORT // 4 or 1
    ]
    for stored in _caches(model, short[: 4 * len(learned)], 8 * batch, "looking for sinks"):
        is_sink = _off_norm(stored, scale)
        sink_rows.append(_table(stored, is_sink, empty).x)
    return replace(
        empty,
        mean=moments.mean.view(L, G, d),
        covariance=moments.covariance,
        kinds=moments.kinds.view(-1, L, G, d),
        share=moments.share,
        count=torch.tensor(moments.count),
        limit=limit,
        sink=_sink_class(torch.cat(sink_rows), torch.cat(norms)),
    )


def _prior(model: Any, stats: Statistics, readings: list[_Reading]) -> Prior:
    """Learned from every other window, measured on the ones between."""
    embedding = model.get_input_embeddings().weight.detach().cpu()

    def batches(start: int, what: str) -> Iterator[regress.Batch]:
        for reading in readings:
            for ids, stored in zip(reading.ids, reading.caches(what), strict=True):
                part, here = stored[start::2], ids[start::2]
                if not len(part):
                    continue
                ordinary = ~sinks.is_sink(part, stats)
                every = torch.ones_like(ordinary)
                tokens = _table(part, ordinary, replace(stats, mean=torch.zeros_like(stats.mean)))
                x = features(embedding, here, every)[ordinary]
                yield x, tokens.x, tokens.block, tokens.blocks

    return regress.fit(batches(0, "learning what tokens tell"), batches(1, "measuring what tokens tell"))


def longest(model: Any) -> int:
    """The most positions that every layer keeps at once: one less than the shortest sliding window."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if window is None or (kinds is not None and "sliding_attention" not in kinds):
        return sys.maxsize
    return int(window) - 1


class _Moments:
    """Running sums for the mean, the covariances of a layer with the next ones, and the mean of each kind."""

    def __init__(self, layers: int, features: int, reach: int, kinds: int) -> None:
        self.count = 0
        self._of_kind = torch.zeros(kinds)
        self._sum_of_kind = torch.zeros(kinds, layers, features)
        self._sum = torch.zeros(layers, features, dtype=torch.float64)
        self._products = torch.zeros(2 * reach + 1, layers, features, features)

    def add(self, x: Tensor, kind: Tensor) -> None:
        """Tokens `[N, L, F]` and the number of each one's kind."""
        self.count += len(x)
        self._of_kind.index_add_(0, kind, torch.ones(len(kind)))
        self._sum_of_kind.index_add_(0, kind, x)
        self._sum += x.double().sum(0)
        layers = x.shape[1]
        for step in range(len(self._products)):
            for layer in range(layers - step):
                self._products[step, layer] += x[:, layer].T @ x[:, layer + step]

    @property
    def mean(self) -> Tensor:
        return (self._sum / self.count).float()

    @property
    def share(self) -> Tensor:
        return self._of_kind / self.count

    @property
    def kinds(self) -> Tensor:
        """The mean of each kind relative to the overall mean, `[K, L, F]`; 0 for a kind without tokens."""
        own = self._sum_of_kind / self._of_kind.clamp(min=1)[:, None, None] - self.mean
        return own * (self._of_kind > 0)[:, None, None]

    @property
    def covariance(self) -> Tensor:
        mean = self._sum / self.count
        out = self._products / self.count
        for step in range(len(out)):
            for layer in range(len(mean) - step):
                out[step, layer] -= torch.outer(mean[layer], mean[layer + step]).float()
        return out


def _caches(model: Any, windows: Tensor, batch: int, what: str) -> Iterator[Tensor]:
    """What the model stores for each batch of windows, `[b, T, L, G, d]`."""
    return _Reading(model, windows, batch, kept_bytes=0).caches(what)


class _Reading:
    """A text that is read more than once: what the model stores for it is kept, as far as memory goes."""

    def __init__(self, model: Any, windows: Tensor, batch: int, kept_bytes: int = _KEPT_BYTES) -> None:
        self._model, self.ids = model, torch.split(windows, batch)
        self._kept: list[Tensor] = []
        self._room = kept_bytes

    def caches(self, what: str, windows: int | None = None) -> Iterator[Tensor]:
        """Of the first `windows`, or of all: `[b, T, L, G, d]` for each batch."""
        left = sum(map(len, self.ids)) if windows is None else windows
        for number, ids in enumerate(track(self.ids, what) if windows is None else self.ids):
            if left <= 0:
                return
            yield self._cache(number, ids)[:left]
            left -= len(ids)

    def _cache(self, number: int, ids: Tensor) -> Tensor:
        if number < len(self._kept):
            return self._kept[number]
        stored = gather(list(prefill(self._model, ids))).cpu()
        if number == len(self._kept) and stored.nbytes <= self._room:
            self._kept.append(stored)
            self._room -= stored.nbytes
        return stored


def _typical_norm(reading: _Reading) -> Tensor:
    caches = reading.caches("typical norms", _SCALE_WINDOWS)
    rms = torch.cat([stored.square().mean(-1).sqrt().flatten(0, 1) for stored in caches])
    return rms.median(0).values.clamp(min=1e-6)


def _off_norm(stored: Tensor, scale: Tensor) -> Tensor:
    """Tokens whose norms are off by a large factor in most heads of most layers: sinks, `[b, T]`."""
    return sinks.log_norms(stored, scale).abs().mean((-1, -2)) > sinks.OFF_NORM


def _table(stored: Tensor, chosen: Tensor, stats: Statistics) -> Any:
    positions = torch.arange(stored.shape[1]).expand(stored.shape[:2])
    blocks = blocks_of(torch.ones_like(chosen, dtype=torch.bool), positions)
    return table(stored, chosen, positions, blocks, stats, stats.mean)


def _sink_class(x: Tensor, ordinary: Tensor) -> SinkClass | None:
    """The template of sink tokens `[n, L, G, d]`, and the log-norms that tell them apart."""
    if len(x) < sinks.FEWEST:
        return None
    mean = x.mean(0)
    centred = x - mean
    covariance = torch.einsum("nlgi,nlgj->lgij", centred, centred) / len(x)
    own = sinks.log_norms(x, torch.ones(x.shape[1:3]))
    log_norm = torch.stack([ordinary.mean(0), ordinary.std(0), own.mean(0), own.std(0)])
    return SinkClass(mean, covariance, log_norm, torch.tensor(len(x)))


def _measured(stats: Statistics, learned: _Reading, held_out: _Reading) -> Statistics:
    """`stats` with how quiet text held out is, and how loud and strange all text is at most."""
    field = Field(stats)
    seen, medians = [], []
    loudest, strangest, glance = (torch.zeros_like(stats.quiet) for _ in range(3))
    limit = stats.limit
    for reading, what in ((held_out, "measuring clean text"), (learned, "outermost of clean text")):
        for stored in reading.caches(what):
            tokens = _table(stored, ~sinks.is_sink(stored, stats), stats)
            if reading is held_out:
                seen.append(field.disturbance(tokens.x, range(stats.layers)))
                medians.append(tokens.block_median(seen[-1]))
            for given, (z, strange) in enumerate(outliers.clean_extremes(field, tokens)):
                loudest[given] = torch.maximum(loudest[given], z.amax((0, 3)))
                strangest[given] = torch.maximum(strangest[given], strange.amax(0))
            at_once = field.glance(tokens.x.unbind(1))
            for way, most in enumerate((at_once, tokens.block_median(at_once).nan_to_num(0))):
                glance[way] = torch.maximum(glance[way], most.amax(0))
            length = stats.pairs.length(tokens.x + stats.mean, keys=stats.groups // 2)
            limit = torch.maximum(limit, length.amax(0))
    typical, largest = torch.cat(seen).median(0).values, torch.cat(medians).nan_to_num(0).amax(0)
    return replace(
        stats,
        quiet=torch.stack([typical, largest]),
        loudest=loudest,
        strangest=strangest,
        glance=glance,
        limit=limit,
    )


def _check(model: Any, windows: Tensor, geometry: Geometry) -> None:
    if windows.dim() != 2 or len(windows) < 2 * _HELD_OUT or windows.shape[1] < 2 * _SHORT:
        raise UserError(
            f"calibration needs at least {2 * _HELD_OUT} windows of {2 * _SHORT} tokens, not "
            f"{list(windows.shape)}: give a longer text"
        )
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and windows.shape[1] > most:
        raise UserError(f"windows of {windows.shape[1]} tokens: the model takes at most {most} (--length)")
    if windows.shape[1] > (fits := longest(model)):
        raise UserError(
            f"windows of {windows.shape[1]} tokens: the model's sliding window keeps {fits} (--length)"
        )
    need = 4 * 2 * geometry.kv_heads * geometry.head_dim
    if windows.numel() < need:
        raise UserError(
            f"calibration needs at least {need} tokens of text for this model, not {windows.numel()}: "
            "give a longer text"
        )
