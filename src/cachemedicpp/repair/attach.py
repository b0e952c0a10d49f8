"""`with medic(model, repair=…, corruption=…, guard=…): …`: work inside a transformers decoder's attention.

Damage, repair and guard take part in a model's attention (`cache/attention.py`), each with its own state. A
block is the same as damaging (and, for a query-independent repair, repairing) the cache once, at rest, after
the prefill. The stored cache itself is not written to, unless a guard is there to see it: then the damage is
done to what is stored, once, and the guard heals it before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.attention import Attention, Participant, attached
from cachemedicpp.cache.calls import aside
from cachemedicpp.cache.state import KV, Geometry, KVState, changed, write
from cachemedicpp.corruption import Injection, Plan, sequence_keys
from cachemedicpp.guard.guard import Guard
from cachemedicpp.repair.base import QueryRepair, Repair, Stored, layout
from cachemedicpp.repair.safe import Safe
from homeostat.core.errors import UserError

Observer = Callable[[int, Tensor, KV], None]


@contextmanager
def medic(
    model: Any,
    repair: Repair | Literal["safe"] | None = None,
    corruption: Injection | None = None,
    guard: Guard | None = None,
    *,
    keys: Sequence[str] | None = None,
    oracle: bool = False,
) -> Iterator[Session]:
    """Attach corruption and/or repair to `model` for the block; yields the session, which keeps the events.

    `keys` name the sequences of the batch for the corruption's draws; without them each is named by its
    prompt's tokens, seen in the prefill. `oracle` tells a repair which vectors were changed. `repair="safe"`
    undoes only what is certainly damage.
    """
    if isinstance(repair, str):
        if repair != "safe":
            raise UserError(f"medic(repair={repair!r}): give a repair (load_repair, heuristic) or 'safe'")
        repair = Safe(tuple(range(Geometry.of(model).layers)))
    if repair is not None:
        repair.check(model)
    damage = None if corruption is None else _Damage(corruption, keys, written=guard is not None)
    session = Session(damage, None if repair is None else _Repairing(repair, damage, oracle))
    watch = None if guard is None else _Watch(guard)
    with attached(model, [one for one in (damage, watch, session.repairing) if one is not None]):
        yield session
        if guard is not None:
            guard.finish()


class Session:
    """What a block did to the current sequences."""

    def __init__(self, damage: _Damage | None, repairing: _Repairing | None) -> None:
        self._damage, self.repairing = damage, repairing

    @property
    def repair(self) -> Repair | None:
        return None if self.repairing is None else self.repairing.repair

    @property
    def plan(self) -> Plan | None:
        """The damage that was drawn."""
        return None if self._damage is None else self._damage.plan

    @property
    def events(self) -> list[dict[str, Any]]:
        """The corruption events of the current sequences, one each."""
        return [] if self.plan is None else [event.as_record() for event in self.plan.events]


class _Damage(Participant):
    """Damages each stored layer once, and remembers it."""

    def __init__(self, injection: Injection, keys: Sequence[str] | None, written: bool) -> None:
        self._injection, self._keys, self._written = injection, keys, written
        self.protected = frozenset(injection.family.protected)
        self.layers = frozenset() if written else self.protected
        self.forget(None, None)

    def forget(self, ids: Tensor | None, mask: Tensor | None) -> None:
        self.plan: Plan | None = None
        self._seen = None if ids is None else sequence_keys(ids, mask)
        self._clean: dict[int, KV] = {}
        self._damaged: dict[int, KV] = {}

    def recognise(self, cache: Cache, state: KVState) -> None:
        self._clean, self._damaged, self.plan = {}, {}, None
        if self._written:
            write(cache, {layer: self.damaged(layer, state[layer]) for layer in self.protected})

    def read(self, layer: int, query: Tensor, old: KV) -> KV:
        return self.damaged(layer, old)

    def damaged(self, layer: int, clean: KV) -> KV:
        """A layer damaged once, then remembered."""
        if layer not in self._damaged:
            if self.plan is None:
                keys = self._keys or self._seen
                if keys is None or len(keys) != clean.K.shape[0]:
                    raise UserError(
                        f"a batch of {clean.K.shape[0]} sequences has no keys for its corruption: run the "
                        "prefill inside the block, or pass keys=sequence_keys(input_ids, attention_mask)"
                    )
                self.plan = self._injection.plan(keys, self.stored.count, self.stored.mask)
            with aside():  # a donor prompt is run on this same model
                self._damaged[layer] = self.plan.apply(layer, *clean)
            self._clean[layer] = clean
        return _last(self._damaged[layer], clean.K.shape[-2])

    def suspects(self, layer: int, like: Tensor) -> Tensor:
        """Which stored vectors of a layer were changed, `[B, H_kv, T]`."""
        if layer not in self._damaged:
            return torch.zeros(*like.shape[:2], self.stored.count, dtype=torch.bool, device=like.device)
        return changed(self._clean[layer], self._damaged[layer], self.stored.count)


class _Watch(Participant):
    """Lets a guard verify and heal a cache before it is read."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def before(self, cache: Cache, mask: Tensor | None) -> None:
        with aside():  # healing runs this same model
            self._guard.before_forward(cache, mask)

    def after(self, cache: Cache, ids: Tensor | None, mask: Tensor | None, places: Tensor | None) -> None:
        with aside():
            self._guard.after_forward(cache, ids, mask, places)


class _Repairing(Participant):
    """Repairs what attention reads: a whole cache once, a layer with a window once, others at each call."""

    def __init__(self, repair: Repair, damage: _Damage | None, oracle: bool) -> None:
        self.repair, self.observer = repair, None
        self._damage, self._oracle = damage, oracle and damage is not None
        self.layers = frozenset(repair.layers)
        self._start()

    observer: Observer | None

    def _start(self) -> None:
        self._layout: tuple[Tensor, Tensor] | None = None
        self._found: KVState | None = None  # what was stored, for a repair of the whole cache
        self._whole: KVState | None = None  # and what the repair made of it
        self._windows: dict[int, KV] = {}  # layers with a sliding window, as they were before it moved on

    def forget(self, ids: Tensor | None, mask: Tensor | None) -> None:
        self._start()

    def recognise(self, cache: Cache, state: KVState) -> None:
        self._start()

    def before(self, cache: Cache, mask: Tensor | None) -> None:
        if self.repair.whole_cache and self._found is None:
            self._found = KVState(cache)

    def read(self, layer: int, query: Tensor, old: KV) -> KV:
        if self.observer is not None:
            self.observer(layer, query, old)
        if self.repair.query_conditioned:
            return old
        kept = old.K.shape[-2]
        if self.repair.whole_cache:
            return _last(self._mended()[layer], kept)
        if layer not in self.stored.windowed:
            return self.repair.repair_layer(old, self._site(layer, old.K))
        if layer not in self._windows:  # once, while it still has all that was stored
            self._windows[layer] = self.repair.repair_layer(old, self._site(layer, old.K))
        return _last(self._windows[layer], kept)

    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> Attention | None:
        if not isinstance(self.repair, QueryRepair):
            return None
        return self.repair.attend(layer, query, old, new, mask, **options)

    def _mended(self) -> KVState:
        """What a repair of the whole cache makes of all stored layers: repaired once, then remembered."""
        if self._whole is None:
            assert self._found is not None  # noqa: S101
            read, damage = self._found.cache(), self._damage
            if damage is not None:
                write(read, {layer: damage.damaged(layer, self._found[layer]) for layer in damage.layers})
            self.repair.repair_cache(read, self.stored.mask)
            self._whole = KVState(read)
        return self._whole

    def _site(self, layer: int, like: Tensor) -> Stored:
        if self._layout is None:
            self._layout = layout(self.stored.count, like.shape[0], self.stored.mask, like.device)
        suspect = self._damage.suspects(layer, like) if self._oracle and self._damage is not None else None
        return Stored(layer, *self._layout, suspect).since(self.stored.count - like.shape[-2])


def _last(kv: KV, count: int) -> KV:
    """The last `count` positions: what a sliding window still keeps."""
    if kv.K.shape[-2] == count:
        return kv
    return KV(kv.K[..., -count:, :], kv.V[..., -count:, :])
