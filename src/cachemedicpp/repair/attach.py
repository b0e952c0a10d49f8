"""`with medic(model, repair=…, corruption=…, guard=…): …`: work inside a transformers decoder's attention.

The block switches the model to an attention function of ours, registered with transformers' attention
interface over the one it had (eager or SDPA). It gets query, key and value after the cache update and before
the scores, KV heads not repeated. Leaving the block puts the old one back.

*Stored positions* are those the cache held when the first call after the prefill was made. Damage and repair
concern these only: the prefill itself reads nothing from a store, and tokens of later calls are fresh. So a
block is the same as damaging (and, for a query-independent repair, repairing) the cache once, at rest, after
the prefill. The stored cache itself is not written to, unless a guard is there to see it: then the damage is
done to what is stored, once, and the guard heals it before it is read.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AttentionInterface, Cache
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from cachemedicpp.cache.state import KV, KVState, changed, readable, write
from cachemedicpp.corruption import Injection, Plan, sequence_keys
from cachemedicpp.guard.guard import Guard
from cachemedicpp.guard.heal import recomputing
from cachemedicpp.repair.base import QueryRepair, Repair, Stored, layout
from cachemedicpp.repair.safe import Safe
from homeostat.core.errors import UserError

Observer = Callable[[int, Tensor, KV], None]
_BASES = ("sdpa", "eager")
_ACTIVE: dict[
    int, Session
] = {}  # by the identity of the configuration that a model's attention modules share


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
    check_decoder(model)
    if isinstance(repair, str):
        if repair != "safe":
            raise UserError(f"medic(repair={repair!r}): give a repair (load_repair, heuristic) or 'safe'")
        repair = Safe(tuple(range(int(model.config.get_text_config().num_hidden_layers))))
    if repair is not None:
        repair.check(model)
    config = model.config.get_text_config()
    before = config._attn_implementation
    if id(config) in _ACTIVE:
        raise UserError(
            "this model already has a medic attached: leave that block first, or pass both to one"
        )
    if before not in _BASES:
        raise UserError(f"attention implementation {before!r}: a medic attaches to {' or '.join(_BASES)}")
    session = Session(model, repair, corruption, guard, keys, oracle)
    inner = model.base_model
    hooks = [inner.register_forward_pre_hook(session.before_forward, with_kwargs=True)]
    if guard is not None:
        hooks.append(inner.register_forward_hook(session.after_forward, with_kwargs=True))
    _ACTIVE[id(config)] = session
    try:
        model.set_attn_implementation(f"medic_{before}")
        yield session
        if guard is not None:
            guard.finish()
    finally:
        model.set_attn_implementation(before)
        del _ACTIVE[id(config)]
        for hook in hooks:
            hook.remove()


def check_decoder(model: Any) -> None:
    """Refuse what has no causal self-attention over a KV cache behind the attention interface."""
    kind = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise UserError(f"{kind} is an encoder-decoder model: cachemedicpp works on decoder-only models")
    attention = [m for m in model.modules() if hasattr(m, "layer_idx") and hasattr(m, "is_causal")]
    if not any(module.is_causal for module in attention):
        raise UserError(
            f"{kind} has no causal attention (an encoder-only model?): it keeps no KV cache to work on"
        )
    if getattr(model.config, "reorder_and_upcast_attn", False):
        raise UserError(
            f"{kind} with reorder_and_upcast_attn bypasses the attention interface: set it to false"
        )


class Session:
    """One block's state: what is stored, what was drawn for it, and what attention reads instead."""

    def __init__(
        self,
        model: Any,
        repair: Repair | None,
        corruption: Injection | None,
        guard: Guard | None,
        keys: Sequence[str] | None,
        oracle: bool,
    ) -> None:
        self.repair = repair
        self.plan: Plan | None = None
        self.observer: Observer | None = None
        self._model, self._corruption, self._guard = model, corruption, guard
        self._given_keys, self._oracle = keys, oracle
        self._base: Callable[..., Any] | None = None
        self._signature = inspect.signature(model.base_model.forward)
        corrupted = () if corruption is None else corruption.family.protected
        self._paused = False
        self._layers = frozenset((*corrupted, *(() if repair is None else repair.layers)))
        self._forget()

    def _forget(self) -> None:
        """A new prefill: nothing is stored yet."""
        self._stored = self._length = 0  # positions that count as stored; positions before this call
        self._cache: weakref.ref[Cache] | None = None
        self.plan = None
        self._seen_keys: list[str] | None = None
        self._mask: Tensor | None = None
        self._damaged: dict[int, KV] = {}
        self._suspects: dict[int, Tensor] = {}  # for a repair with oracle knowledge
        self._layout: tuple[Tensor, Tensor] | None = None
        self._mended: KVState | None = None
        self._windowed: frozenset[int] = frozenset()
        self._repaired: dict[int, KV] = {}  # layers with a sliding window, as they were before it moved on
        self._found: KVState | None = None  # what was stored, for a repair of the whole cache

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Run the model as it is, inside the block: nothing is damaged, repaired, guarded or counted."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    @property
    def events(self) -> list[dict[str, Any]]:
        """The corruption events of the current sequences, one each."""
        return [] if self.plan is None else [event.as_record() for event in self.plan.events]

    def before_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        if self._paused or recomputing():
            return
        call = self._signature.bind_partial(*args, **kwargs).arguments
        cache, mask = call.get("past_key_values"), call.get("attention_mask")
        mask = mask if isinstance(mask, Tensor) and mask.dim() == 2 else None
        length = 0 if cache is None else int(cache.get_seq_length())
        if cache is None or length == 0:
            self._forget()
            if self._corruption is not None and call.get("input_ids") is not None:
                self._seen_keys = sequence_keys(call["input_ids"], mask)
        else:
            self._recognise(cache, length, mask)
        if self._guard is not None and cache is not None and length > 0:
            with self.pause():  # healing runs this same model
                self._guard.before_forward(self._model, cache, mask)
        whole = self.repair is not None and self.repair.whole_cache
        if whole and cache is not None and length > 0 and self._found is None:
            self._found = KVState(cache)

    def _recognise(self, cache: Cache, length: int, mask: Tensor | None) -> None:
        """Fix what counts as stored when a cache is first read, or again after it was cut back."""
        if self._cache is not None and self._cache() is not cache:
            self._forget()  # other sequences than those of the last call
        if self._stored == 0 or length < self._stored:
            self._stored, self._mask = length, mask
            self._damaged, self._layout, self.plan, self._mended, self._found = {}, None, None, None, None
            state = readable(cache)
            self._windowed, self._repaired = frozenset(state.windowed), {}
            if self._corruption is not None and self._guard is not None:
                write(cache, {i: self._corrupted(i, state[i]) for i in self._corruption.family.protected})
        self._cache, self._length = weakref.ref(cache), length

    def after_forward(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        call = self._signature.bind_partial(*args, **kwargs).arguments
        cache = getattr(output, "past_key_values", None)
        mask = call.get("attention_mask")
        mask = mask if isinstance(mask, Tensor) and mask.dim() == 2 else None
        places = call.get("position_ids")
        if self._guard is not None and cache is not None and not self._paused and not recomputing():
            with self.pause():
                self._guard.after_forward(self._model, cache, call.get("input_ids"), mask, places)

    def attend(
        self,
        base: str,
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of one layer: query `[B, H, Q, d]`, key and value `[B, H_kv, T, d]`, new tokens last."""
        attention = self._attention(base, module)
        layer, stored = module.layer_idx, self._stored
        if stored == 0 or layer not in self._layers or self._paused or recomputing():
            return attention(module, query, key, value, mask, **kwargs)  # type: ignore[no-any-return]
        kept = stored - (self._length + query.shape[-2] - key.shape[-2])  # a sliding window drops the rest
        if kept <= 0:
            return attention(module, query, key, value, mask, **kwargs)  # type: ignore[no-any-return]
        old = self._read(layer, KV(key[..., :kept, :], value[..., :kept, :]))
        new = KV(key[..., kept:, :], value[..., kept:, :])
        if self.repair is not None and layer in self.repair.layers:
            if self.observer is not None:
                self.observer(layer, query, old)
            if isinstance(self.repair, QueryRepair):
                return self.repair.attend(layer, query, old, new, mask, dropped=stored - kept, **kwargs)
            if self.repair.whole_cache:
                old = _last(self._whole()[layer], kept)
            elif layer in self._windowed:  # once, while it still has all that was stored
                if layer not in self._repaired:
                    site = self._site(layer, key).since(stored - kept)
                    self._repaired[layer] = self.repair.repair_layer(old, site)
                old = _last(self._repaired[layer], kept)
            else:
                old = self.repair.repair_layer(old, self._site(layer, key))
        elif old.K.data_ptr() == key.data_ptr():
            return attention(module, query, key, value, mask, **kwargs)  # type: ignore[no-any-return]
        K, V = torch.cat((old.K, new.K), dim=-2), torch.cat((old.V, new.V), dim=-2)
        return attention(module, query, K, V, mask, **kwargs)  # type: ignore[no-any-return]

    def _read(self, layer: int, clean: KV) -> KV:
        """The stored keys and values that attention reads for a layer."""
        if self._corruption is None or layer not in self._corruption.family.protected:
            return clean
        if self._guard is not None:
            return clean  # the store itself was damaged, and healed
        return self._corrupted(layer, clean)

    def _corrupted(self, layer: int, clean: KV) -> KV:
        """A layer damaged once, then remembered."""
        assert self._corruption is not None  # noqa: S101
        if layer not in self._damaged:
            if self.plan is None:
                keys = self._given_keys or self._seen_keys
                if keys is None or len(keys) != clean.K.shape[0]:
                    raise UserError(
                        f"a batch of {clean.K.shape[0]} sequences has no keys for its corruption: run the "
                        "prefill inside the block, or pass keys=sequence_keys(input_ids, attention_mask)"
                    )
                self.plan = self._corruption.plan(keys, self._stored, self._mask)
            with self.pause():  # a donor prompt is run on this same model
                self._damaged[layer] = self.plan.apply(layer, *clean)
            if self._oracle:
                self._suspects[layer] = changed(clean, self._damaged[layer], self._stored)
        return _last(self._damaged[layer], clean.K.shape[-2])

    def _whole(self) -> KVState:
        """What a repair of the whole cache makes of all stored layers: repaired once, then remembered."""
        if self._mended is None:
            assert self._found is not None and self.repair is not None  # noqa: S101
            read = self._found.cache()
            write(read, {number: self._read(number, part) for number, part in enumerate(self._found)})
            self.repair.repair_cache(read, self._mask)
            self._mended = KVState(read)
        return self._mended

    def _site(self, layer: int, key: Tensor) -> Stored:
        if self._layout is None:
            self._layout = layout(self._stored, key.shape[0], self._mask, key.device)
        suspect = self._suspects.get(layer)
        if suspect is None and self._oracle and self._corruption is not None:  # a layer that is not damaged
            suspect = torch.zeros(key.shape[0], key.shape[1], self._stored, dtype=torch.bool)
        return Stored(layer, *self._layout, suspect)

    def _attention(self, base: str, module: Any) -> Callable[..., Any]:
        """The attention the model had: SDPA is shared by all models, eager is each architecture's own."""
        if self._base is None:
            if base == "eager":
                self._base = sys.modules[type(module).__module__].eager_attention_forward
            else:
                self._base = ALL_ATTENTION_FUNCTIONS[base]
        return self._base


def _last(kv: KV, count: int) -> KV:
    """The last `count` positions: what a sliding window still keeps."""
    if kv.K.shape[-2] == count:
        return kv
    return KV(kv.K[..., -count:, :], kv.V[..., -count:, :])


def _registered(base: str) -> Callable[..., Any]:
    def medic_attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        session = _ACTIVE[id(module.config)]
        return session.attend(base, module, query, key, value, attention_mask, **kwargs)

    return medic_attention


for _base in _BASES:
    AttentionInterface.register(f"medic_{_base}", _registered(_base))
    AttentionMaskInterface.register(f"medic_{_base}", ALL_MASK_ATTENTION_FUNCTIONS[_base])
