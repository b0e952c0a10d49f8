"""`Guard`: fingerprints of a cache as it is written, verification before it is read, exact recomputation.

guard = Guard(model)
guard.watch(cache, input_ids)            # fingerprints
guard.verify(cache)                      # the damaged blocks, by sequence and layer
guard.heal(cache)                        # recomputes exactly those

with Guard(model, every=16) as guard:    # by itself around generate(): every 16 tokens; 1: every call
    model.generate(…)
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.guard.heal import recompute
from cachemedicpp.guard.ledger import BLOCK, Damage, Ledger
from cachemedicpp.guard.reshape import Reshaped, follow
from cachemedicpp.repair import Repair
from cachemedicpp.state import KVState, positions, write
from homeostat.errors import UserError


class Guard:
    """Watches one cache of `model` at a time; caches it never saw are left to `repair`, if one is given."""

    def __init__(self, model: Any, every: int = 1, block: int = BLOCK, repair: Repair | None = None) -> None:
        if every < 1 or block < 1:
            raise UserError(f"Guard(every={every}, block={block}): both are at least 1")
        self.model, self.every, self.block, self.repair = model, every, block, repair
        self.ledger: Ledger | None = None
        self.healed: list[Damage] = []
        self.verified = 0
        self._waiting: list[tuple[Tensor, Tensor | None, Tensor | None]] = []
        self._followed: Reshaped | None = None
        self._hooks: list[Any] = []
        self._busy = False
        self._signature = inspect.signature(model.base_model.forward)

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
        state = KVState(cache)
        if self.ledger is None or self._followed is None or self._followed.cache is not cache:
            self.forget()
            self.ledger = Ledger.empty(state, self.block)
            self._followed = follow(cache, self._before_crop, self._reshaped)
        ledger = self.ledger
        ids = (
            input_ids[:, -(state.length - ledger.length) :]
            if state.length > ledger.length
            else input_ids[:, :0]
        )
        if ledger.length + ids.shape[1] != state.length or ids.shape[0] != state.batch:
            raise UserError(
                f"the cache holds {state.batch} × {state.length} positions, {ledger.length} of them known; "
                f"input_ids has shape {list(input_ids.shape)}: give the tokens of every stored position"
            )
        new = slice(ledger.length, state.length)
        mask = torch.ones(ids.shape) if attention_mask is None else attention_mask[:, -ids.shape[1] :]
        if position_ids is None:
            whole = torch.cat((ledger.mask, mask.cpu().bool()), 1)
            known = None if bool(whole.all()) else whole
            position_ids = positions(state.length, known, state.batch, torch.device("cpu"))[:, new]
        position_ids = position_ids[:, -ids.shape[1] :].expand(ids.shape)
        self.ledger = ledger.extend(state, ids, mask, position_ids)

    def verify(self, cache: Cache) -> list[Damage]:
        """The blocks of `cache` that are not as they were written; empty if all is well."""
        return self._known(cache).compare(KVState(cache))

    def heal(self, cache: Cache, attention_mask: Tensor | None = None) -> list[Damage]:
        """Recompute the damaged blocks in place and return what they were.

        Undamaged blocks keep their bits. Recomputed ones equal the lost ones to rounding, which a fingerprint
        cannot compare: each must have the sum of squares that was written, and gets a new fingerprint.
        """
        if self.ledger is None and self.repair is not None:
            self.repair.repair_cache(cache, attention_mask)
            return []
        ledger, state = self._known(cache), KVState(cache)
        damages = ledger.compare(state)
        if damages:
            write(cache, recompute(self.model, state, ledger, damages))
            self.ledger = _renewed(ledger, KVState(cache), damages)
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
        if self._followed is not None:
            self._followed.release()
        self.ledger, self._followed, self._waiting = None, None, []

    def __enter__(self) -> Self:
        inner = self.model.base_model
        self._hooks = [
            inner.register_forward_pre_hook(self._before, with_kwargs=True),
            inner.register_forward_hook(self._after, with_kwargs=True),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._followed is not None and kind is None:
            self._catch_up(self._followed.cache)
            self.heal(self._followed.cache)
        if self._followed is not None:
            self._followed.release()

    def before_forward(self, model: Any, cache: Cache, attention_mask: Tensor | None) -> None:
        """A cache is about to be read: verify and heal it, every `every` tokens."""
        if self._followed is None or self._followed.cache is not cache:
            raise UserError(
                "this cache was filled before the guard watched it: call guard.watch(cache, input_ids) "
                "first, or run the prefill inside the block"
            )
        if sum(ids.shape[1] for ids, *_ in self._waiting) >= self.every:
            self._catch_up(cache)
        if not self._waiting:
            self.heal(cache)
            self.verified += 1

    def after_forward(
        self,
        model: Any,
        cache: Cache,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        position_ids: Tensor | None = None,
    ) -> None:
        """A cache has grown by the tokens of this call."""
        if input_ids is None:
            raise UserError("a guard needs input_ids: positions made from inputs_embeds cannot be recomputed")
        count = input_ids.shape[1]
        if int(cache.get_seq_length()) == count:  # a prefill: nothing before this call
            self.forget()
        mask = None if attention_mask is None else attention_mask[:, -count:]
        if self._followed is None or self._followed.cache is not cache:
            self.watch(cache, input_ids, mask, position_ids)
            return
        places = None if position_ids is None else position_ids.expand(input_ids.shape)
        self._waiting.append((input_ids, mask, places))
        if self.every == 1:
            self._catch_up(cache)

    def _catch_up(self, cache: Cache) -> None:
        """Fingerprint the tokens that came since the last time."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        ids = torch.cat([call[0] for call in waiting], 1)
        masks = [torch.ones_like(call[0]) if call[1] is None else call[1] for call in waiting]
        places = None
        if all(call[2] is not None for call in waiting):
            places = torch.cat([call[2] for call in waiting if call[2] is not None], 1)
        self.watch(cache, ids, torch.cat(masks, 1), places)

    def _known(self, cache: Cache) -> Ledger:
        ledger = self.ledger
        if ledger is None:
            raise UserError(
                "this guard has no fingerprints of the cache: call guard.watch(cache, input_ids) first"
            )
        if not ledger.intact:
            raise UserError(
                "the guard's own fingerprints were damaged: nothing can be told or healed by them"
            )
        state = KVState(cache)
        if (state.batch, len(state)) != (ledger.rows, ledger.sums.shape[0]) or state.length < ledger.length:
            raise UserError(
                f"the cache ({len(state)} layers, {state.batch} × {state.length} positions) is not the one "
                f"that was fingerprinted ({ledger.sums.shape[0]} layers, {ledger.rows} × {ledger.length})"
            )
        return ledger

    def _before_crop(self) -> None:
        """A cut block is fingerprinted anew, so it must be sound before the cut."""
        assert self._followed is not None  # noqa: S101
        self._catch_up(self._followed.cache)
        self.heal(self._followed.cache)

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
            self._waiting = [
                (ids[index], None if mask is None else mask[index], None if at is None else at[index])
                for ids, mask, at in self._waiting
            ]

    def _before(self, module: Any, args: Any, kwargs: Any) -> None:
        call = self._signature.bind_partial(*args, **kwargs).arguments
        cache = call.get("past_key_values")
        if cache is not None and int(cache.get_seq_length()) > 0:
            self._paused(lambda: self.before_forward(self.model, cache, _flat(call.get("attention_mask"))))

    def _after(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        call = self._signature.bind_partial(*args, **kwargs).arguments
        cache = getattr(output, "past_key_values", None)
        if cache is not None:
            mask, places = _flat(call.get("attention_mask")), call.get("position_ids")
            ids = call.get("input_ids")
            self._paused(lambda: self.after_forward(self.model, cache, ids, mask, places))

    def _paused(self, work: Any) -> None:
        """Healing runs the model itself: its calls are not watched."""
        if self._busy:
            return
        self._busy = True
        try:
            work()
        finally:
            self._busy = False


def _flat(mask: Any) -> Tensor | None:
    return mask if isinstance(mask, Tensor) and mask.dim() == 2 else None


def _renewed(ledger: Ledger, state: KVState, damages: list[Damage]) -> Ledger:
    """The ledger with new fingerprints of the healed blocks, and only of those."""
    fresh = Ledger.empty(state, ledger.block).extend(state, ledger.ids, ledger.mask, ledger.positions)
    sums, sizes = ledger.sums.clone(), ledger.sizes.clone()
    for damage in damages:
        for kind in (k for k in (0, 1) if "KV"[k] in damage.tensor):
            where = (damage.layer, kind, damage.row, damage.block)
            sums[where], sizes[where] = fresh.sums[where], fresh.sizes[where]
    return replace(ledger, sums=sums, sizes=sizes).sealed()
