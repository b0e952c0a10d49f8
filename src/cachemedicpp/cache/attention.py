"""The seam into a transformers decoder: what takes part in its attention, and when each part has its turn.

`attached` switches a model to an attention function of ours, registered with transformers' attention
interface over the one it had (eager or SDPA). It gets query, key and value after the cache update and before
the scores, KV heads not repeated. Leaving the block puts the old one back.

*Stored positions* are those the cache held when the first call after the prefill was made. Participants see
these only: the prefill itself reads nothing from a store, and tokens of later calls are fresh.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, Cache
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from cachemedicpp.cache.calls import hooked, is_aside
from cachemedicpp.cache.state import KV, KVState, readable
from homeostat.core.errors import UserError

_BASES = ("sdpa", "eager")
_ACTIVE: dict[int, _Dispatcher] = {}  # by the identity of the configuration that attention modules share

Attention = tuple[Tensor, Tensor | None]  # what was read `[B, Q, H, d]`, and the weights or None


class Reading:
    """The cache that is being read: which of its positions count as stored."""

    def __init__(self) -> None:
        self.count = self.length = 0  # positions that count as stored; positions before this call
        self.mask: Tensor | None = None  # `[B, ≥ count]`
        self.windowed: frozenset[int] = frozenset()  # layers with a sliding window
        self.cache: weakref.ref[Cache] | None = None


class Participant:
    """Something that changes or watches what attention reads. Each keeps its own state."""

    layers: frozenset[int] = frozenset()  # whose stored keys and values it changes
    stored: Reading

    def forget(self, ids: Tensor | None, mask: Tensor | None) -> None:
        """A new prefill with these tokens: nothing is stored yet."""

    def recognise(self, cache: Cache, state: KVState) -> None:
        """A cache is read for the first time, or again after it was cut back."""

    def before(self, cache: Cache, mask: Tensor | None) -> None:
        """A stored cache is about to be read."""

    def after(self, cache: Cache, ids: Tensor | None, mask: Tensor | None, places: Tensor | None) -> None:
        """A cache has grown by the tokens of a call."""

    def read(self, layer: int, query: Tensor, old: KV) -> KV:
        """What attention reads instead of the stored `old` `[B, H_kv, T, d]` of one of `layers`."""
        return old

    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> Attention | None:
        """Attention over stored and new positions, in place of the model's own; None: the model's own."""
        return None


@contextmanager
def attached(model: Any, participants: Sequence[Participant]) -> Iterator[None]:
    """Let `participants` take part in the attention of `model`; they have their turns in this order."""
    check_decoder(model)
    config = model.config.get_text_config()
    before = config._attn_implementation
    if id(config) in _ACTIVE:
        raise UserError(
            "this model already has a medic attached: leave that block first, or pass both to one"
        )
    if before not in _BASES:
        raise UserError(f"attention implementation {before!r}: a medic attaches to {' or '.join(_BASES)}")
    dispatcher = _Dispatcher(participants)
    hooks = hooked(model, dispatcher.before, dispatcher.after)
    _ACTIVE[id(config)] = dispatcher
    try:
        model.set_attn_implementation(f"medic_{before}")
        yield
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


class _Dispatcher:
    """Finds out what is stored, and gives each participant its turn."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self._participants = participants
        self._layers = frozenset(layer for one in participants for layer in one.layers)
        self._base: Callable[..., Any] | None = None
        self._forget(None, None)

    def _forget(self, ids: Tensor | None, mask: Tensor | None) -> None:
        self._stored = Reading()
        for one in self._participants:
            one.stored = self._stored
            one.forget(ids, mask)

    def before(self, cache: Cache | None, ids: Tensor | None, mask: Tensor | None) -> None:
        length = 0 if cache is None else int(cache.get_seq_length())
        if cache is None or length == 0:
            self._forget(ids, mask)
            return
        self._recognise(cache, length, mask)
        for one in self._participants:
            one.before(cache, mask)

    def _recognise(self, cache: Cache, length: int, mask: Tensor | None) -> None:
        """Fix what counts as stored when a cache is first read, or again after it was cut back."""
        if self._stored.cache is not None and self._stored.cache() is not cache:
            self._forget(None, None)  # other sequences than those of the last call
        stored = self._stored
        if stored.count == 0 or length < stored.count:
            state = readable(cache)
            stored.count, stored.mask, stored.windowed = length, mask, frozenset(state.windowed)
            for one in self._participants:
                one.recognise(cache, state)
        stored.cache, stored.length = weakref.ref(cache), length

    def after(self, cache: Cache, ids: Tensor | None, mask: Tensor | None, places: Tensor | None) -> None:
        for one in self._participants:
            one.after(cache, ids, mask, places)

    def attend(
        self, base: str, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any
    ) -> Attention:
        """Attention of one layer: query `[B, H, Q, d]`, key and value `[B, H_kv, T, d]`, new tokens last."""
        attention = self._attention(base, module)
        layer, stored = module.layer_idx, self._stored
        kept = stored.count - (stored.length + query.shape[-2] - key.shape[-2])  # a window drops the rest
        if stored.count == 0 or kept <= 0 or layer not in self._layers or is_aside():
            return attention(module, query, key, value, mask, **kwargs)  # type: ignore[no-any-return]
        clean = old = KV(key[..., :kept, :], value[..., :kept, :])
        new = KV(key[..., kept:, :], value[..., kept:, :])
        taking = [one for one in self._participants if layer in one.layers]
        for one in taking:
            old = one.read(layer, query, old)
        for one in taking:
            found = one.attend(layer, query, old, new, mask, dropped=stored.count - kept, **kwargs)
            if found is not None:
                return found
        if old.K is not clean.K or old.V is not clean.V:
            key, value = torch.cat((old.K, new.K), dim=-2), torch.cat((old.V, new.V), dim=-2)
        return attention(module, query, key, value, mask, **kwargs)  # type: ignore[no-any-return]

    def _attention(self, base: str, module: Any) -> Callable[..., Any]:
        """The attention the model had: SDPA is shared by all models, eager is each architecture's own."""
        if self._base is None:
            if base == "eager":
                self._base = sys.modules[type(module).__module__].eager_attention_forward
            else:
                self._base = ALL_ATTENTION_FUNCTIONS[base]
        return self._base


def _registered(base: str) -> Callable[..., Any]:
    def medic_attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> Attention:
        dispatcher = _ACTIVE[id(module.config)]
        return dispatcher.attend(base, module, query, key, value, attention_mask, **kwargs)

    return medic_attention


for _base in _BASES:
    AttentionInterface.register(f"medic_{_base}", _registered(_base))
    AttentionMaskInterface.register(f"medic_{_base}", ALL_MASK_ATTENTION_FUNCTIONS[_base])
