"""Whether a block's numbers can be at all, judged as they are written.

A fingerprint of wrong numbers is a right fingerprint: what a broken kernel or a fault during computation
writes, passes for ever. Operator G knows what a model's keys and values look like, so it can say that some
cannot be: a number that is not finite, an element that its head or its neighbouring layers contradict, a
head that disagrees with the others throughout the block. Each is measured as a multiple of the most that
calibration saw in clean text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from homeostat.core.errors import UserError

KINDS = ("own head", "other heads", "whole block", "sinks")
# multiples beyond which a block cannot be: one and a half times the most seen in text that neither
# calibration nor the test of this limit has seen (docs/engines.md); short calibrations know less
LIMIT, SHORT_LIMIT, _SHORT = 3.25, 4.0, 20_000
_SINKS = 4.0  # in a block: twice as many as there ever were in clean text
_OWN, _ALL = 8.0, 14.0  # standardised residuals that are never outliers, as in `repair.gaussian.outliers`


@dataclass(frozen=True)
class Score:
    """How far a block is from clean text: beyond 1 it cannot be, infinite is what is not finite."""

    value: float
    layer: int
    kind: str

    @property
    def impossible(self) -> bool:
        return not self.value <= 1.0


class Plausibility:
    """Operator G's statistics, asked one question."""

    def __init__(self, folder: str) -> None:
        from cachemedicpp.repair.base import load_repair
        from cachemedicpp.repair.gaussian.operator import GaussianRepair

        repair = load_repair(Path(folder))
        if not isinstance(repair, GaussianRepair):
            raise UserError(
                f"{folder} holds a repair of family {repair.name!r}: plausibility needs an operator G"
            )
        self.stats, self.field = repair.stats, repair.field
        self.limit = SHORT_LIMIT if int(self.stats.count) < _SHORT else LIMIT
        loudest = 1.25 * self.stats.loudest  # [2, L, G]: of clean elements, given their head and given all
        self._outlier = torch.stack((loudest[0].clamp(min=_OWN), loudest[1].clamp(min=_ALL)))

    def score(self, K: Tensor, V: Tensor, first: Sequence[int]) -> list[Score]:
        """Of blocks' keys and values `[B, L, H, T, d]` at positions `first …`."""
        found = []
        for ratios in self.ratios(K, V, first) / self.limit:
            kind, layer = divmod(int(ratios.argmax()), ratios.shape[1])
            value = float(ratios.max())
            found.append(Score(value, layer, KINDS[kind] if math.isfinite(value) else "not finite"))
        return found

    @torch.no_grad()
    def ratios(self, K: Tensor, V: Tensor, first: Sequence[int]) -> Tensor:
        """How loud each of `KINDS` is in every layer, 1 being the most in calibration: `[B, 4, L]`."""
        from cachemedicpp.cache.state import KV
        from cachemedicpp.repair.gaussian import sinks
        from cachemedicpp.repair.gaussian.outliers import own_residuals
        from cachemedicpp.repair.gaussian.tokens import gather, table

        B, L, _, T, d = K.shape
        finite = K.isfinite().flatten(2).all(-1) & V.isfinite().flatten(2).all(-1)  # [B, L]
        K, V = (x.float().nan_to_num(0.0, 0.0, 0.0) for x in (K, V))
        stored = gather([KV(k, v) for k, v in zip(K.unbind(1), V.unbind(1), strict=True)])
        positions = torch.as_tensor(first).unsqueeze(1) + torch.arange(T)
        sink = sinks.is_sink(stored, self.stats)
        ordinary = self.stats.known(positions) & ~sink
        number = torch.arange(B).unsqueeze(1).expand(B, T)
        tokens = table(stored, ordinary, positions, (number, B), self.stats, self.stats.mean)
        out = torch.zeros(B, 4, L)
        out[:, 3] = sink.sum(1, keepdim=True) / _SINKS
        if len(tokens):
            for layer in range(L):
                gradient = self.field.gradient(tokens.x, layer).view(len(tokens), -1, d)
                disturbance = tokens.block_median(gradient.square().sum(-1)).nan_to_num(0.0)  # [B, G]
                out[:, 2, layer] = (disturbance / self.stats.quiet[1, layer]).amax(-1)
                precision = self.field.precision(layer)
                for group in range(gradient.shape[1]):
                    turn = tokens.turn(layer, group)
                    x = turn.turn(tokens.x[:, layer, group])
                    own = own_residuals(x, self.field.head_precision[layer, group], turn)
                    spread = turn.diagonal(precision.own(group, d)).sqrt()
                    both = (own, (turn.turn(gradient[:, group]) / spread).abs())
                    for kind, z in enumerate(both):
                        ratio = z.amax(-1) / self._outlier[kind, layer, group]
                        out[:, kind, layer].scatter_reduce_(0, tokens.block, ratio, "amax")
        return out.masked_fill(~finite.unsqueeze(1), math.inf)


class Judge:
    """Looks at blocks as they are filled. What cannot be is computed again, once; what stays so is reported.

    The token of the step that wrote the block is already on its way: the engine takes no complaint about
    blocks of the step itself.
    """

    def __init__(self, plausible: Plausibility, cache: PagedCache, events: Events, every: int) -> None:
        self._plausible = plausible
        self._cache = cache
        self._events = events
        self._every = every
        self._count = 0
        self._again: set[tuple[str, int]] = set()  # computed again already

    def look(self, watch: Watch) -> None:
        due = []
        for span, write in watch.filled:
            self._count += 1
            if (span.request, write.number) in self._again or self._count % self._every == 0:
                due.append((span, write))
        if not due:
            return
        K, V = (torch.stack(some) for some in zip(*(self._cache.kv(w.block) for _, w in due), strict=True))
        scores = self._plausible.score(K, V, [w.number * watch.cache.size for _, w in due])
        for (span, write), score in zip(due, scores, strict=True):
            place = (span.request, write.number)
            if not score.impossible or write.block in watch.quarantine:
                self._again.discard(place)
                continue
            self._events.counts.implausible += 1
            stays = place in self._again
            self._events.say(
                "implausible",
                request=span.request,
                block=write.block,
                score=round(score.value, 2),
                layer=score.layer,
                against=score.kind.replace(" ", "-"),
                then="stays-so" if stays else "computed-again",
            )
            if stays:
                self._again.discard(place)
            else:
                self._again.add(place)
                watch.doubt(span, write)
