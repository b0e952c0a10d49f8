"""The state `S`: the keys and values of a transformers cache, layer by layer, without copies.

A `KVState` holds references to tensors `[B, H_kv, T, d]`. Forking shares them, and replacing a layer
replaces a reference; nothing here writes into a tensor, so forks of one prefill never see each other's
changes. (Dynamic caches grow by concatenation, which makes new tensors: running the model on a fork is safe.)

A layer with a sliding window keeps its last positions only: layer `l` stores `start(l) … length - 1`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from homeostat.core.errors import UserError


class KV(NamedTuple):
    """The keys and values of one layer, each `[B, H_kv, T, d]`."""

    K: Tensor
    V: Tensor


def changed(before: KV, after: KV, length: int) -> Tensor:
    """Where two states of a layer differ, `[B, H_kv, length]`; a sliding window stores the last positions."""
    found = (before.K != after.K).any(-1) | (before.V != after.V).any(-1)
    return torch.nn.functional.pad(found, (length - found.shape[-1], 0))


@dataclass(frozen=True)
class Geometry:
    """The sizes that a repair operator or a mask must fit."""

    layers: int
    heads: int  # query heads
    kv_heads: int
    head_dim: int

    @property
    def groups(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads

    @classmethod
    def of(cls, model: Any) -> Geometry:
        config = model.config.get_text_config()
        heads = int(config.num_attention_heads)
        return cls(
            layers=int(config.num_hidden_layers),
            heads=heads,
            kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        )


class KVState:
    """Keys and values by layer, with operations that copy nothing they do not change."""

    def __init__(self, cache: Cache) -> None:
        """View `cache`; the view shares its tensors but not its layer objects."""
        self._cache = fork(cache)

    def __repr__(self) -> str:
        B, H, T, d = self[0].K.shape
        return f"KVState({len(self)} layers, {B} × {T} positions, {H} KV heads of {d}, {self[0].K.dtype})"

    def __len__(self) -> int:
        return len(self._cache.layers)

    def __getitem__(self, layer: int) -> KV:
        stored: Any = self._cache.layers[layer]
        return KV(stored.keys, stored.values)

    @property
    def batch(self) -> int:
        return int(self[0].K.shape[0])

    @property
    def length(self) -> int:
        """Positions of the sequence, padding included; layers with a sliding window store the last ones."""
        stored: Any = self._cache.layers[0]
        return int(stored.get_seq_length())

    def start(self, layer: int) -> int:
        """The first position that a layer still stores: 0 unless its sliding window has moved on."""
        stored: Any = self._cache.layers[layer]
        return int(stored.get_seq_length()) - int(stored.keys.shape[-2])

    @property
    def windowed(self) -> list[int]:
        """The layers with a sliding window."""
        return [i for i, x in enumerate(self._cache.layers) if isinstance(x, DynamicSlidingWindowLayer)]

    @property
    def first(self) -> int:
        """The first position that every layer stores."""
        return max(self.start(layer) for layer in range(len(self)))

    def cache(self) -> DynamicCache:
        """A cache the model can run on: it grows without touching this state."""
        return fork(self._cache)

    def replace(self, layers: Mapping[int, tuple[Tensor, Tensor]]) -> KVState:
        """This state with some layers' `(K, V)` replaced; all others are shared."""
        other = KVState(self._cache)
        write(other._cache, layers)
        return other

    def norm(self, layers: Iterable[int] | None = None) -> Tensor:
        """`||S||_F` of each sequence over the chosen layers, keys and values together: `[B]`."""
        chosen = range(len(self)) if layers is None else layers
        squares = [_square(x) for layer in chosen for x in self[layer]]
        return torch.stack(squares).sum(0).sqrt()

    def rms(self, layer: int) -> Tensor:
        """Root mean square of one layer's keys and values together, for each sequence: `[B]`."""
        K, V = self[layer]
        count = K[0].numel() + V[0].numel()
        return ((_square(K) + _square(V)) / count).sqrt()

    def repeat(self, times: int) -> KVState:
        """Each sequence `times` times in a row (sequence 0 first), for forks that run in one batch."""
        index = torch.arange(self.batch).repeat_interleave(times).tolist()
        return self.rows(index)

    def rows(self, index: Sequence[int]) -> KVState:
        """The chosen sequences of the batch."""
        return self.replace({i: (k[list(index)], v[list(index)]) for i, (k, v) in enumerate(self)})

    def __iter__(self) -> Iterator[KV]:
        return (self[layer] for layer in range(len(self)))


def readable(cache: Any) -> KVState:
    """What `cache` stores, refused in one line where it is nothing that can be worked on."""
    layers = getattr(cache, "layers", None)
    if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
        raise UserError("this cache is empty: run the model on it first")
    state = KVState(cache)
    if any(x.dim() != 4 or 0 in x.shape for kv in state for x in kv):
        raise UserError(f"this cache stores nothing: keys of shape {list(state[0].K.shape)}")
    for index, (K, V) in enumerate(state):
        if K.shape[:2] != V.shape[:2] or K.shape[-1] != V.shape[-1]:
            raise UserError(
                f"layer {index} stores keys of shape {list(K.shape)} and values of shape {list(V.shape)}: "
                "they must have the same heads and head size"
            )
    return state


def stack(states: Sequence[KVState]) -> KVState:
    """Forks of equal length as one batch, in the given order.

    A layer that every fork shares as one row is expanded instead of copied.
    """
    first = states[0]
    joined: dict[int, tuple[Tensor, Tensor]] = {}
    for layer in range(len(first)):
        pairs = [state[layer] for state in states]
        joined[layer] = (_join([kv.K for kv in pairs]), _join([kv.V for kv in pairs]))
    return first.replace(joined)


def fork(cache: Any) -> DynamicCache:
    """A cache that shares all tensors with `cache` and grows on its own. Refuses what is not a dynamic cache.

    Static caches are written in place, quantised ones do not hold what attention reads, and offloaded ones
    are between two devices.
    """
    for index, layer in enumerate(cache.layers):
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise UserError(
                f"cache layer {index} is a {type(layer).__name__}: cachemedicpp works on dynamic caches, "
                "with or without sliding windows; run the model with use_cache=True only"
            )
    if getattr(cache, "offloading", False):
        raise UserError(
            "this cache is offloaded, layer by layer: cachemedicpp works on dynamic caches that stay on one "
            "device; run the model without cache_implementation='offloaded'"
        )
    twin: DynamicCache = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


def write(cache: Cache, layers: Mapping[int, tuple[Tensor, Tensor]]) -> None:
    """Point layers of `cache` at other tensors of the same shape."""
    for index, (K, V) in layers.items():
        layer: Any = cache.layers[index]
        if layer.is_initialized and layer.keys.shape[1:] != K.shape[1:]:
            raise UserError(
                f"layer {index} holds keys of shape {list(layer.keys.shape)}, not {list(K.shape)}: "
                "heads, positions and head size must stay as they are"
            )
        layer.keys, layer.values = K, V


def first_positions(length: int, attention_mask: Tensor | None, batch: int) -> list[int]:
    """The index of each sequence's first real token among `length` stored positions (0 without padding).

    The mask `[B, ≥ length]` may be longer than what is stored: it then covers the current call too.
    """
    if attention_mask is None:
        return [0] * batch
    stored = attention_mask[:, :length].to(torch.long)
    return (stored.cumsum(-1) == 0).sum(-1).clamp(max=length).tolist()


def positions(length: int, attention_mask: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """Position numbers `[B, T]`, counted from each sequence's first real token as `generate()` does."""
    if attention_mask is None:
        return torch.arange(length, device=device).expand(batch, length)
    return (attention_mask[:, :length].to(device, torch.long).cumsum(-1) - 1).clamp(min=0)


def _square(x: Tensor) -> Tensor:
    return x.double().square().flatten(1).sum(1)  # [B]


def _join(tensors: Sequence[Tensor]) -> Tensor:
    head, rows = tensors[0], sum(len(x) for x in tensors)
    if (len(head) == 1 or head.stride(0) == 0) and all(x is head for x in tensors):
        return head[:1].expand(rows, *head.shape[1:])
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
