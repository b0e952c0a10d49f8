"""Following a cache through its own methods: beam reordering, batch growth and selection, cropping.

While it is followed, a cache's class is a subclass of its own that reports these calls. Copies of it report
nothing: only the object that is followed is in the register.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as memo
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

_REGISTER: dict[int, Reshaped] = {}


@dataclass(frozen=True)
class Reshaped:
    """A followed cache: `before` is called ahead of a crop, `after` with the new rows or the new length."""

    cache: Cache
    before: Callable[[], None]
    after: Callable[[Tensor | None, int | None], None]
    plain: Any

    def release(self) -> None:
        if _REGISTER.get(id(self.cache)) is self:
            del _REGISTER[id(self.cache)]
            self.cache.__class__ = self.plain


def follow(
    cache: Cache, before: Callable[[], None], after: Callable[[Tensor | None, int | None], None]
) -> Reshaped:
    plain: Any = getattr(type(cache), "_plain", type(cache))
    followed = Reshaped(cache, before, after, plain)
    _REGISTER[id(cache)] = followed
    cache.__class__ = _reporting(plain)
    return followed


@memo
def _reporting(plain: Any) -> Any:
    def rows(method: str, chosen: Callable[[Any, Any], Tensor]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            index = chosen(self, *args, *kwargs.values())
            result = getattr(plain, method)(self, *args, **kwargs)
            if id(self) in _REGISTER:
                _REGISTER[id(self)].after(index, None)
            return result

        return call

    def crop(self: Any, *args: Any, **kwargs: Any) -> Any:
        followed = _REGISTER.get(id(self))
        if followed is not None:
            followed.before()
        result = plain.crop(self, *args, **kwargs)
        if followed is not None:
            followed.after(None, int(self.get_seq_length()))
        return result

    def reduced(self: Any, protocol: Any) -> Any:
        """Copied and pickled as what it was: copies are not followed."""
        _, (_, *rest), *state = plain.__reduce_ex__(self, protocol)
        return _made, (plain, *rest), *state

    return type(
        plain.__name__,
        (plain,),
        {
            "_plain": plain,
            "__reduce_ex__": reduced,
            "crop": crop,
            "reorder_cache": rows("reorder_cache", lambda _, index: index),
            "batch_select_indices": rows("batch_select_indices", lambda _, index: index),
            "batch_repeat_interleave": rows("batch_repeat_interleave", _repeated),
        },
    )


def _made(plain: Any, *args: Any) -> Any:
    return plain.__new__(plain, *args)


def _repeated(cache: Any, repeats: int) -> Tensor:
    return torch.arange(cache.layers[0].keys.shape[0]).repeat_interleave(repeats)
