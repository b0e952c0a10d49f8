"""`Guard`: fingerprints of a cache as it is written, verification before it is read, exact recomputation.

guard = Guard(model)
guard.watch(cache, input_ids)            # fingerprints
guard.verify(cache)                      # the damaged blocks, by sequence and layer
guard.heal(cache)                        # recomputes exactly those

with Guard(model, every=16) as guard:    # works by itself around generate(): every 16 tokens
    model.generate(…)
"""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.calls import hooked
from cachemedicpp.cache.state import KVState, positions, readable, write
from cachemedicpp.guard.heal import recompute, remake
from cachemedicpp.guard.ledger import BLOCK, Damage, Ledger
from cachemedicpp.guard.reshape import Reshaped, follow
from homeostat.core.errors import UserError


class CacheRepair(Protocol):
    """What a guard asks of a repair for caches that it never saw being written."""

    def repair_cache(self, cache: Cache, attention_mask: Tensor | None = None) -> Any:
        """Repair what the cache stores, in place."""


class Guard:
    """Watches one cache of `model` at a time; caches it never saw are left to `repair`, if one is given.

    With a sliding window and `every` above 1, positions that leave the window between two verifications are
    not verified again: damage done to them in that time is read and then gone.
    """

    def __init__(
        self, model: Any, every: int = 1, block: int = BLOCK, repair: CacheRepair | None = None
    ) -> None:
        if every < 1 or block < 1:
            raise UserError(f"Guard(every={every}, block={block}): both are at least 1")
        self.model, self.every, self.block, self.repair = model, every, block, repair
        self.ledger: Ledger | None = None
        self.healed: list[Damage] = []
        self.verified = 0
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []  # ids, mask, positions
        self._followed: Reshaped | None = None
        self._hooks: list[Any] = []
        self._left: weakref.ref[Cache] | None = None  # never seen, and left to the repair

    def __repr__(self) -> str:
        what = "nothing watched" if self.ledger is None else f"watches {self.ledger!r}"
        done = f"verified {self.verified} times, healed {len(self.healed)} blocks"
        return f"Guard({type(self.model).__name__}, every={self.every}, block={self.block}: {what}; {done})"

    def watch(
        self,
        cache: Cache,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> None:
        """Fingerprint what `cache` stores now. `input_ids` `[B, T]` are all its tokens, or those it grew by.

        `attention_mask` covers the same tokens. Positions are counted as `generate()` does, unless given.
        """
        state = readable(cache)
        if input_ids.dim() != 2 or input_ids.shape[0] != state.batch:
            raise UserError(
                f"input_ids has shape {list(input_ids.shape)}; the cache holds {state.batch} sequences"
            )
        for name, given in (("attention_mask", attention_mask), ("position_ids", position_ids)):
            rows = (1, state.batch) if name == "position_ids" else (state.batch,)
            if given is not None and (given.shape[0] not in rows or given.shape[1:] != input_ids.shape[1:]):
                raise UserError(
                    f"{name} has shape {list(given.shape)}, input_ids {list(input_ids.shape)}: give one "
                    "number for each token"
                )
        if self.ledger is None or self._followed is None or self._followed.cache is not cache:
            self.forget()
            self.ledger = Ledger.empty(state, self.block)
            self._followed = follow(cache, self._before_crop, self._reshaped)
        count = state.length - self.ledger.length
        if count == 0:
            return
        if not 0 < count <= input_ids.shape[1]:
            raise UserError(
                f"the cache holds {state.batch} × {state.length} positions, {self.ledger.length} of them "
                f"known; input_ids has shape {list(input_ids.shape)}: give the tokens of every stored one"
            )
        self.ledger = self.ledger.extend(state, *self._tokens(input_ids, attention_mask, position_ids, count))

    def _tokens(
        self, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, mask and positions of the last `count` tokens; positions as `generate()` counts them."""
        ledger = self.ledger
        assert ledger is not None  # noqa: S101
        ids = input_ids[:, -count:]
        mask = torch.ones(ids.shape) if attention_mask is None else attention_mask[:, -count:]
        if position_ids is None:
            whole = torch.cat((ledger.mask, mask.cpu().bool()), 1)
            known = None if bool(whole.all()) else whole
            position_ids = positions(whole.shape[1], known, len(whole), torch.device("cpu"))
        return ids, mask, position_ids[:, -count:].expand(ids.shape)

    def verify(self, cache: Cache) -> list[Damage]:
        """The blocks of `cache` that are not as they were written; empty if all is well."""
        ledger, state = self._known(cache)
        return ledger.compare(state)

    def heal(self, cache: Cache, attention_mask: Tensor | None = None) -> list[Damage]:
        """Recompute the damaged blocks in place and return what they were.

        Undamaged blocks keep their bits. Recomputed ones equal the lost ones to rounding, which a fingerprint
        cannot compare: each must have the sketch of what was written, and gets a new fingerprint. `cache` is
        the one that was watched, or a copy of it: whatever else it holds is taken for damage.
        """
        if self.ledger is None and self.repair is not None:
            self.repair.repair_cache(cache, attention_mask)
            return []
        ledger, state = self._known(cache)
        damages = ledger.compare(state)
        if damages:
            write(cache, recompute(self.model, state, ledger, damages))
            self.ledger = ledger.renewed(KVState(cache), damages)
            if left := self.ledger.compare(KVState(cache)):
                raise UserError(f"{len(left)} blocks still differ after healing, the first in {left[0]}")
            self.healed += damages
        return damages

    def resume(self, cache: Cache, ledger: Ledger) -> None:
        """Continue with fingerprints taken earlier, of a cache that was stored or sent since."""
        self.forget()
        self.ledger, self.block = ledger, ledger.block
        self._followed = follow(cache, self._before_crop, self._reshaped)

    def forget(self) -> None:
        """Drop the fingerprints and stop following the cache."""
        self._release()
        self.ledger, self._waiting, self._left = None, [], None

    def finish(self) -> None:
        """Verify a last time and let the cache go: what happens to it from now on is not noticed."""
        if self._followed is not None:
            self._settle(self._followed.cache)
        self._release()

    def _release(self) -> None:
        if self._followed is not None:
            self._followed.release()
        self._followed = None

    def __enter__(self) -> Self:
        if self._hooks:
            raise UserError("this guard is on duty already: leave its block first, or make another Guard")

        def before(cache: Cache | None, ids: Tensor | None, mask: Tensor | None) -> None:
            if cache is not None and int(cache.get_seq_length()) > 0:
                self.before_forward(cache, mask)

        self._hooks = hooked(self.model, before, self.after_forward)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if kind is None:
            self.finish()
        self._release()

    def before_forward(self, cache: Cache, attention_mask: Tensor | None) -> None:
        """A cache is about to be read: verify and heal it, every `every` tokens."""
        if self._followed is None or self._followed.cache is not cache:
            self._leave_to_repair(cache, attention_mask)
        elif not self._waiting or sum(ids.shape[1] for ids, *_ in self._waiting) >= self.every:
            self._settle(cache)
            self.verified += 1

    def _leave_to_repair(self, cache: Cache, attention_mask: Tensor | None) -> None:
        """Give a cache that this guard never saw to the repair, once, if there is a repair."""
        if self.repair is None:
            raise UserError(
                "this cache was filled before the guard watched it (or changed hands since): call "
                "guard.watch(cache, input_ids) first, or run the prefill inside the block"
            )
        if self._left is None or self._left() is not cache:
            self.repair.repair_cache(cache, attention_mask)
            self._left = weakref.ref(cache)

    def after_forward(
        self,
        cache: Cache,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        position_ids: Tensor | None = None,
    ) -> None:
        """A cache has grown by the tokens of this call."""
        if input_ids is None:
            raise UserError("a guard needs input_ids: positions made from inputs_embeds cannot be recomputed")
        if self._left is not None and self._left() is cache:
            return
        count, length = input_ids.shape[1], int(cache.get_seq_length())
        if length == count:  # a prefill: nothing before this call
            self.forget()
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask[:, -count:]
        if position_ids is None:  # as the model counts them: it does not look at the mask for this
            position_ids = torch.arange(length - count, length).unsqueeze(0)
        places = position_ids.expand(input_ids.shape)
        if self._followed is None or self._followed.cache is not cache:
            self.watch(cache, input_ids, mask, places)
            return
        self._waiting.append((input_ids.cpu(), mask.cpu(), places.cpu()))
        if self.every == 1:
            self._catch_up(cache)

    def _settle(self, cache: Cache) -> None:
        """Heal what has fingerprints, recompute the tokens that were made from the damage, then catch up."""
        damages = self.heal(cache)
        if damages and self._waiting:
            assert self.ledger is not None  # noqa: S101
            tokens = self.ledger.told(*self._last())
            rows = sorted({damage.row for damage in damages})
            write(cache, remake(self.model, KVState(cache), tokens, self.ledger.length, rows))
        self._catch_up(cache)

    def _last(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, mask and positions of the tokens that came since the last time."""
        ids, mask, places = (torch.cat(column, 1) for column in zip(*self._waiting, strict=True))
        return ids, mask, places

    def _catch_up(self, cache: Cache) -> None:
        """Fingerprint the tokens that came since the last time."""
        if self._waiting:
            tokens = self._last()
            self._waiting = []
            self.watch(cache, *tokens)

    def _known(self, cache: Cache) -> tuple[Ledger, KVState]:
        ledger = self.ledger
        if ledger is None:
            raise UserError(
                "this guard has no fingerprints of the cache: call guard.watch(cache, input_ids) first"
            )
        if not ledger.intact:
            raise UserError(
                "the guard's own fingerprints were damaged: they can neither verify nor heal anything"
            )
        state = readable(cache)
        ledger.check(state)
        return ledger, state

    def _before_crop(self) -> None:
        """A cut block gets a new fingerprint, so it must be sound before the cut."""
        assert self._followed is not None  # noqa: S101
        self._settle(self._followed.cache)

    def _reshaped(self, rows: Tensor | None, length: int | None) -> None:
        """The cache was reordered, repeated, thinned or cropped by its own methods."""
        assert self._followed is not None and self.ledger is not None  # noqa: S101
        cache = self._followed.cache
        if length is not None:
            self._waiting = []
            if length < self.ledger.length:
                self.ledger = self.ledger.crop(KVState(cache), length)
        if rows is not None:
            self.ledger = self.ledger.select(rows)
            index = rows.cpu()
            self._waiting = [(ids[index], mask[index], at[index]) for ids, mask, at in self._waiting]
