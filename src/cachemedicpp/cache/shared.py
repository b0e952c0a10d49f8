"""Layers that compute the same for every row of a batch: run for one row, and not again for the others.

Forks of one prefix differ from the first layer on whose stored keys or values differ. Where all of them read
the same tokens, every layer below that one computes the same for each fork (`shared_layers`). A pass over
tokens that another pass has read needs no layer below the first one that changed (`resumed_at`). Both use
hooks that change what goes into a module; no model's code is replaced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from homeostat.core.errors import UserError


@contextmanager
def shared_layers(model: Any) -> Iterator[None]:
    """Calls inside the block with equal rows of tokens run the layers that all rows share for one row.

    A layer is shared as long as its stored keys and values are one tensor that was expanded over the rows.
    """
    run = _OneRow(model)

    def begin(ids: Tensor, cache: Any) -> int:
        rows = len(ids)
        first = next((i for i, x in enumerate(cache.layers) if not _is_expanded(x, rows)), len(cache.layers))
        return first if rows > 1 and first > 0 and bool((ids == ids[:1]).all()) else 0

    with run.hooked(begin, lambda one, rows: one.expand(rows, *one.shape[1:])):
        yield


@contextmanager
def resumed_at(model: Any, first: int, hidden: Tensor) -> Iterator[None]:
    """Calls inside the block go on from what entered layer `first` in an earlier pass over the same tokens.

    The layers below still run, for one row, because a model's forward cannot begin in its middle; what they
    add to the cache is of no use afterwards. Rows must not be padded.
    """
    with _OneRow(model).hooked(lambda ids, cache: first, lambda one, rows: hidden):
        yield


@contextmanager
def entering(model: Any, layer: int, keep: Callable[[Tensor], None]) -> Iterator[None]:
    """Hand what enters a decoder layer to `keep`."""

    def look(module: Any, args: Any, kwargs: Any) -> None:
        keep(args[0] if args else kwargs["hidden_states"])

    hook = decoder_layers(model)[layer].register_forward_pre_hook(look, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def decoder_layers(model: Any) -> nn.ModuleList:
    """The list of a model's decoder layers, in order."""
    count = int(model.config.get_text_config().num_hidden_layers)
    for module in model.base_model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise UserError(f"{type(model).__name__} has no list of {count} decoder layers: use a decoder-only model")


class _OneRow:
    """One call's state: how many rows were asked for, and at which layer they come back."""

    def __init__(self, model: Any) -> None:
        self.inner, self.layers = model.base_model, decoder_layers(model)
        self.signature = inspect.signature(self.inner.forward)
        self.rows, self.first = 0, 0

    @contextmanager
    def hooked(
        self, begin: Callable[[Tensor, Any], int], widen: Callable[[Tensor, int], Tensor]
    ) -> Iterator[None]:
        def before(module: Any, args: Any, kwargs: Any) -> Any:
            call = self.signature.bind_partial(*args, **kwargs).arguments
            given = {name for name, value in call.items() if value is not None}
            self.rows = 0
            if not {"input_ids", "past_key_values"} <= given or given & {"attention_mask", "position_ids"}:
                return None
            ids, cache = call["input_ids"], call["past_key_values"]
            first = min(begin(ids, cache), len(self.layers) - 1) if cache.get_seq_length() else 0
            if first == 0:
                return None
            self.rows, self.first = len(ids), first
            for layer in cache.layers[:first]:
                layer.keys, layer.values = layer.keys[:1], layer.values[:1]
            extra = call.pop("kwargs", {})
            return (), {**call, **extra, "input_ids": ids[:1]}

        def at(number: int) -> Callable[..., Any]:
            def enter(module: Any, args: Any, kwargs: Any) -> Any:
                if not self.rows or number != self.first:
                    return None
                if args:
                    return (widen(args[0], self.rows), *args[1:]), kwargs
                return args, {**kwargs, "hidden_states": widen(kwargs["hidden_states"], self.rows)}

            return enter

        def after(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            if self.rows:
                for layer in kwargs["past_key_values"].layers[: self.first]:
                    layer.keys, layer.values = (
                        x.expand(self.rows, *x.shape[1:]) for x in (layer.keys, layer.values)
                    )

        with ExitStack() as hooks:
            add = self.inner.register_forward_pre_hook
            hooks.callback(add(before, with_kwargs=True).remove)
            for number, layer in enumerate(self.layers):
                hooks.callback(layer.register_forward_pre_hook(at(number), with_kwargs=True).remove)
            hooks.callback(self.inner.register_forward_hook(after, with_kwargs=True).remove)
            yield


def _is_expanded(layer: Any, rows: int) -> bool:
    """Whether a layer of a cache holds one row, expanded: equal rows by construction."""
    return all(len(x) == rows and x.stride(0) == 0 for x in (layer.keys, layer.values))
