"""A cache with room for tokens to come: appending one does not copy all that is stored.

transformers' dynamic layers join old and new tokens in a new tensor at every step. For a batch of forks that
decode greedily, these copies are a third of the time.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A dynamic layer whose keys and values are the filled part of larger tensors."""

    def __init__(self, layer: DynamicLayer, room: int) -> None:
        vars(self).update(vars(layer))
        self._room = room
        self._whole: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.keys is not None and self.values is not None  # noqa: S101
        stored = self.keys.shape[-2]
        end = stored + key_states.shape[-2]
        if not self._fits(self.keys, self.values, end):
            self._whole = self._larger(self.keys, end), self._larger(self.values, end)
        assert self._whole is not None  # noqa: S101
        for whole, new in zip(self._whole, (key_states, value_states), strict=True):
            whole[..., stored:end, :] = new
        self.keys, self.values = (whole[..., :end, :] for whole in self._whole)
        return self.keys, self.values

    def _larger(self, old: Tensor, end: int) -> Tensor:
        whole = old.new_empty(*old.shape[:-2], end + self._room, old.shape[-1])
        whole[..., : old.shape[-2], :] = old
        return whole

    def _fits(self, keys: Tensor, values: Tensor, end: int) -> bool:
        """There is room, and nobody has put other tensors in the place of the filled part."""
        return self._whole is not None and all(
            x.data_ptr() == whole.data_ptr() and len(x) == len(whole) and end <= whole.shape[-2]
            for x, whole in zip((keys, values), self._whole, strict=True)
        )


def make_room(cache: Cache, tokens: int) -> None:
    """Let the dynamic layers of a cache that already stores something grow by `tokens` in place."""
    cache.layers = [
        GrowingLayer(layer, tokens) if type(layer) is DynamicLayer and layer.is_initialized else layer
        for layer in cache.layers
    ]
