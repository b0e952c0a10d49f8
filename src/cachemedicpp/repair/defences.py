"""Defences as the grid sees them: applied to the stored cache, or attached while the model reads it.

Every defence gets the same corrupted cache. `knowledge` says what else it knows: nothing that was drawn
(`blind`), exactly which vectors were changed (`oracle`), or fingerprints taken when the cache was
written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch

from cachemedicpp.cache.state import KVState, changed
from cachemedicpp.corruption import Plan
from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.guard.guard import Guard
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair, layout
from cachemedicpp.repair.heuristics import Levels, heuristic, heuristics
from cachemedicpp.repair.heuristics.time import reachable

Knowledge = Literal["blind", "oracle", "fingerprints"]
ORACLE = ":oracle"


@dataclass(frozen=True)
class Forks:
    """Forks of one clean prefix, corrupted and stacked: what a defence may look at."""

    stored_ids: tuple[int, ...]
    clean: KVState  # batch 1; only a defence that watched the cache being written may use it
    plans: Sequence[Plan | None]  # None: an undamaged fork
    damaged: KVState | None = None  # as many rows as plans; None: no fork is damaged

    def suspects(self, layers: Sequence[int]) -> dict[int, torch.Tensor]:
        """The true masks `[F, H_kv, T]` by layer: heads and positions with a changed number in K or V."""
        damaged = self.clean.repeat(len(self.plans)) if self.damaged is None else self.damaged
        return {layer: changed(self.clean[layer], damaged[layer], self.clean.length) for layer in layers}


@dataclass(frozen=True)
class Defence:
    """A repair: applied to the stored cache or, where it needs the query, attached. None: no defence."""

    name: str = "none"
    knowledge: Knowledge = "blind"
    repair: Repair | None = None
    axes: AxesConfig | None = None  # known to a repair that is `timed`

    @property
    def attaches(self) -> bool:
        """Whether something stays attached while the cache is read: no other defence may share the batch."""
        return self.repair is not None and self.repair.query_conditioned

    @property
    def discards(self) -> bool:
        """True where everything that damage can reach is thrown away: every cell then has the same score."""
        return self.repair is not None and self.repair.discards and self.knowledge == "blind"

    def under(self, axes: AxesConfig) -> Self:
        """This defence where the protocol's masks are `axes`, for those that use them."""
        if self.repair is None:
            return self
        return replace(self, repair=self.repair.under(axes), axes=axes if self.repair.timed else None)

    @torch.no_grad()
    def mend(self, model: Any, cache: Any, forks: Forks) -> None:
        """Repair the stored cache in place, before it is read."""
        if self.repair is None or self.attaches:
            return
        suspect = None
        if self.knowledge == "oracle":
            suspect = forks.suspects(self.repair.layers)
        elif self.axes is not None:
            heads, length = forks.clean[0].K.shape[1], forks.clean.length
            known = layout(length, len(forks.plans), None, forks.clean[0].K.device)
            reach = reachable(self.axes, *known).unsqueeze(1).expand(-1, heads, -1)
            suspect = dict.fromkeys(self.repair.layers, reach)
        self.repair.repair_cache(cache, suspect=suspect)

    def attached(self, model: Any, forks: Forks | None = None) -> AbstractContextManager[Any]:
        """What stays attached while the cache is read."""
        if self.repair is None or not self.attaches:
            return nullcontext()
        repair = self.repair
        if self.knowledge == "oracle":
            if forks is None:
                raise ValueError(f"{self.name} needs to be told what was damaged")
            repair = repair.knowing(forks.suspects(repair.layers))
        return medic(model, repair=repair)


@dataclass(frozen=True)
class Guarded(Defence):
    """Fingerprints taken from the clean cache; what no longer matches is recomputed from the tokens."""

    name: str = "guard"
    knowledge: Knowledge = "fingerprints"

    @torch.no_grad()
    def mend(self, model: Any, cache: Any, forks: Forks) -> None:
        ids = torch.tensor([forks.stored_ids] * len(forks.plans), device=model.device)
        guard = Guard(model)
        guard.watch(forks.clean.repeat(len(forks.plans)).cache(), ids)
        fingerprints = guard.ledger
        assert fingerprints is not None  # noqa: S101
        guard.resume(cache, fingerprints)
        guard.heal(cache)
        guard.forget()


def heuristic_defences(
    layers: Sequence[int],
    levels: Levels | None = None,
    axes: AxesConfig | None = None,
    names: Collection[str] | None = None,
    oracle: bool | Collection[str] = False,
) -> list[Defence]:
    """The heuristics, or those of `names`, blind; all or those of `oracle` again as `<heuristic>:oracle`.

    The calibrated ones are among them where `levels` are given.
    """
    known = [n for n in heuristics(calibrated=levels is not None) if names is None or n in names]
    made = {name: heuristic(name, layers, levels, axes) for name in known}
    blind = [Defence(name, repair=repair) for name, repair in made.items()]
    told = made if oracle is True else oracle or ()
    return [*blind, *(Defence(n + ORACLE, "oracle", repair) for n, repair in made.items() if n in told)]
