"""Whether a block's numbers can be at all, judged as they are written.

A fingerprint of wrong numbers is a right fingerprint: what a broken kernel or a fault during computation
writes, passes for ever. Operator G knows what a model's keys and values look like, so it can say that some
cannot be: a number that is not finite, an element that its head or its neighbouring layers contradict more
loudly than anything in clean text. The score of a block is its loudest contradiction, as a multiple of the
loudest in calibration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from homeostat.core.errors import UserError

LIMIT = 4.0  # rare tokens that calibration never saw reach 2.6 (docs/engines.md)
_OWN, _ALL = 8.0, 14.0  # standardised residuals that are never outliers, as in `repair.gaussian.outliers`


@dataclass(frozen=True)
class Score:
    """How far a block is from clean text: 1 is an outlier to operator G, infinite what is not finite."""

    value: float
    layer: int
    kind: str

    @property
    def impossible(self) -> bool:
        return not self.value <= LIMIT


class Plausibility:
    """Operator G's statistics, asked one question."""

    def __init__(self, folder: str, whole: bool = True) -> None:
        from cachemedicpp.repair.base import load_repair
        from cachemedicpp.repair.gaussian.operator import GaussianRepair

        repair = load_repair(Path(folder))
        if not isinstance(repair, GaussianRepair):
            raise UserError(
                f"{folder} holds a repair of family {repair.name!r}: plausibility needs an operator G"
            )
        self.stats, self.field = repair.stats, repair.field
        loudest = 1.25 * self.stats.loudest  # [2, L, G]: of clean elements, given their head and given all
        self._outlier = torch.stack((loudest[0].clamp(min=_OWN), loudest[1].clamp(min=_ALL)))
        self.whole = whole  # given all heads and neighbouring layers too; otherwise given its own head alone

    @torch.no_grad()
    def score(self, K: Tensor, V: Tensor, first: int) -> Score:
        """Of a block's keys and values `[L, H, T, d]` at positions `first …`."""
        from cachemedicpp.cache.state import KV
        from cachemedicpp.repair.gaussian import sinks
        from cachemedicpp.repair.gaussian.outliers import both_residuals
        from cachemedicpp.repair.gaussian.tokens import gather, table

        finite = torch.stack([(k.isfinite() & v.isfinite()).all() for k, v in zip(K, V, strict=True)])
        if not bool(finite.all()):
            return Score(math.inf, int((~finite).nonzero()[0]), "not finite")
        stored = gather([KV(k.unsqueeze(0), v.unsqueeze(0)) for k, v in zip(K, V, strict=True)])
        positions = torch.arange(first, first + stored.shape[1]).unsqueeze(0)
        ordinary = self.stats.known(positions) & ~sinks.is_sink(stored, self.stats)
        if not bool(ordinary.any()):
            return Score(0.0, 0, "nothing to judge")
        number = torch.zeros_like(positions)
        tokens = table(stored, ordinary, positions, (number, 1), self.stats, self.stats.mean)
        worst = Score(0.0, 0, "fine")
        names = ("own head", "other heads")[: 2 if self.whole else 1]
        for kind, outlier, z in zip(names, self._outlier, both_residuals(self.field, tokens), strict=False):
            ratio = (z.amax((0, 3)) / outlier).amax(1)  # [L]
            if float(ratio.max()) > worst.value:
                worst = Score(float(ratio.max()), int(ratio.argmax()), kind)
        return worst


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
        for span, write in list(watch.filled):
            if write.block in watch.quarantine:
                continue
            place = (span.request, write.number)
            self._count += 1
            if place not in self._again and self._count % self._every:
                continue
            score = self._plausible.score(*self._cache.kv(write.block), write.number * watch.cache.size)
            if not score.impossible:
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
