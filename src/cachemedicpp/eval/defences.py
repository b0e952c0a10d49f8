"""Defences as the grid sees them: applied to the stored cache, or attached while the model reads it.

Every defence gets the same corrupted cache. `knowledge` says what else it knows: nothing that was drawn
(`blind`), exactly which vectors were changed (`oracle`), or fingerprints taken when the cache was
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch

from cachemedicpp.cache.state import KVState, changed
from cachemedicpp.corruption import Plan
from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair, layout
from cachemedicpp.repair.heuristics import (
    CALIBRATED,
    HEURISTICS,
    Forget,
    Levels,
    LimitsForget,
    ResetClear,
    heuristic,
)
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
    """No defence at all. The other defences override what they do differently."""

    name: str = "none"
    knowledge: Knowledge = "blind"

    def mend(self, model: Any, cache: Any, forks: Forks) -> None:
        """Repair the stored cache in place, before it is read."""

    def attached(self, model: Any, forks: Forks | None = None) -> AbstractContextManager[Any]:
        """What stays attached while the cache is read."""
        return nullcontext()

    @property
    def attaches(self) -> bool:
        """Whether something stays attached while the cache is read: no other defence may share the batch."""
        return False

    def under(self, axes: AxesConfig) -> Self:
        """This defence where the protocol's masks are `axes`, for those that use them."""
        return self

    @property
    def discards(self) -> bool:
        """True where everything that damage can reach is thrown away: every cell then has the same score."""
        return False


@dataclass(frozen=True)
class AtRest(Defence):
    """A repair that does not depend on the query: applied once to what is stored."""

    repair: Repair | None = None
    axes: AxesConfig | None = None  # known to a repair that is `timed`

    def under(self, axes: AxesConfig) -> Self:
        if isinstance(self.repair, ResetClear):
            return replace(self, repair=replace(self.repair, axes=axes))
        return replace(self, axes=axes) if self.repair is not None and self.repair.timed else self

    @property
    def discards(self) -> bool:
        return isinstance(self.repair, ResetClear) and self.knowledge == "blind"

    def mend(self, model: Any, cache: Any, forks: Forks) -> None:
        assert self.repair is not None  # noqa: S101
        suspect = None
        if self.knowledge == "oracle":
            suspect = forks.suspects(self.repair.layers)
        elif self.axes is not None:
            heads, length = forks.clean[0].K.shape[1], forks.clean.length
            known = layout(length, len(forks.plans), None, forks.clean[0].K.device)
            reach = reachable(self.axes, *known).unsqueeze(1).expand(-1, heads, -1)
            suspect = dict.fromkeys(self.repair.layers, reach)
        with torch.no_grad():
            self.repair.repair_cache(cache, suspect=suspect)


@dataclass(frozen=True)
class Inline(Defence):
    """A query-conditioned operator: attached to attention while the model runs."""

    repair: Repair | None = None

    @property
    def attaches(self) -> bool:
        return True

    def under(self, axes: AxesConfig) -> Self:
        return replace(self, repair=replace(self.repair, axes=axes)) if self._forgets else self  # type: ignore[type-var]

    @property
    def discards(self) -> bool:
        return self._forgets and not isinstance(self.repair, LimitsForget) and self.knowledge == "blind"

    def attached(self, model: Any, forks: Forks | None = None) -> AbstractContextManager[Any]:
        repair = self.repair
        if isinstance(repair, Forget) and self.knowledge == "oracle":
            if forks is None:
                raise ValueError(f"{self.name} needs to be told what was damaged")
            repair = replace(repair, suspects=forks.suspects(repair.layers))
        return medic(model, repair=repair)

    @property
    def _forgets(self) -> bool:
        return isinstance(self.repair, Forget)


@dataclass(frozen=True)
class Guarded(Defence):
    """Fingerprints taken from the clean cache; what no longer matches is recomputed from the tokens."""

    name: str = "guard"
    knowledge: Knowledge = "fingerprints"

    def mend(self, model: Any, cache: Any, forks: Forks) -> None:
        from cachemedicpp.guard.guard import Guard

        ids = torch.tensor([forks.stored_ids] * len(forks.plans), device=model.device)
        guard = Guard(model)
        guard.watch(forks.clean.repeat(len(forks.plans)).cache(), ids)
        fingerprints = guard.ledger
        assert fingerprints is not None  # noqa: S101
        guard.resume(cache, fingerprints)
        with torch.no_grad():
            guard.heal(cache)
        guard.forget()


def from_repair(name: str, repair: Repair, knowledge: Knowledge = "blind") -> Defence:
    """A repair as a defence, inline where it needs the query."""
    if repair.query_conditioned:
        return Inline(name, knowledge, repair)
    return AtRest(name, knowledge, repair)


def heuristics(
    layers: Sequence[int], oracle: bool, levels: Levels | None = None, axes: AxesConfig | None = None
) -> list[Defence]:
    """The heuristics, blind and (if wanted) a second time with the true mask, as `<heuristic>:oracle`.

    The calibrated ones are among them where `levels` are given.
    """
    names = [*HEURISTICS, *(CALIBRATED if levels is not None else ())]
    blind: list[Defence] = [from_repair(name, heuristic(name, layers, levels, axes)) for name in names]
    if not oracle:
        return blind
    told = [from_repair(n + ORACLE, heuristic(n, layers, levels, axes), "oracle") for n in names]
    return [*blind, *told]
