"""Hooks around the calls of a decoder: what a cache is about to be read for, and by what it has grown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from transformers import Cache

_ASIDE: ContextVar[bool] = ContextVar("aside", default=False)

Before = Callable[[Cache | None, Tensor | None, Tensor | None], None]  # cache, ids, mask
After = Callable[[Cache, Tensor | None, Tensor | None, Tensor | None], None]  # and position ids


@contextmanager
def aside() -> Iterator[None]:
    """Run models as they are inside the block: whatever is hooked to them does nothing and counts nothing."""
    token = _ASIDE.set(True)
    try:
        yield
    finally:
        _ASIDE.reset(token)


def is_aside() -> bool:
    return _ASIDE.get()


def hooked(model: Any, before: Before, after: After) -> list[Any]:
    """Be called around each call of `model`; returns hooks to remove. Masks are over tokens `[B, T]`."""
    inner = model.base_model
    signature = inspect.signature(inner.forward)

    def ahead(module: Any, args: Any, kwargs: Any) -> None:
        if not is_aside():
            call = signature.bind_partial(*args, **kwargs).arguments
            before(call.get("past_key_values"), call.get("input_ids"), _flat(call.get("attention_mask")))

    def behind(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        cache = getattr(output, "past_key_values", None)
        if cache is not None and not is_aside():
            call = signature.bind_partial(*args, **kwargs).arguments
            mask = _flat(call.get("attention_mask"))
            after(cache, call.get("input_ids"), mask, call.get("position_ids"))

    return [
        inner.register_forward_pre_hook(ahead, with_kwargs=True),
        inner.register_forward_hook(behind, with_kwargs=True),
    ]


def _flat(mask: Any) -> Tensor | None:
    return mask if isinstance(mask, Tensor) and mask.dim() == 2 else None
