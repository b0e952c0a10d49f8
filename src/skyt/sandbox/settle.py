"""What a call gives that is not a value yet: generators are collected, coroutines are run.

The items of a generator are encoded as they come, up to a limit. Coroutines run on an event loop without
sockets and without a clock of the machine's: sleeping takes no time, and the order of events is always the
same. Loaded by the jail, with nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable
from typing import Any

MAX_ITEMS = 1000


class Loop(asyncio.base_events.BaseEventLoop):
    """An event loop in which time passes only by waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is left to wait for")
        self._now += timeout
        return []

    def _process_events(self, _events: list[Any]) -> None:
        """There are none: nothing comes from outside."""

    def _write_to_self(self) -> None:
        """There is one thread."""


class Policy(asyncio.DefaultEventLoopPolicy):
    """Gives programs that call `asyncio.run` themselves the same loop."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()


def settled(value: Any, encode: Callable[[Any], Any], failed: Callable[[BaseException], Any]) -> Any:
    """The encoding of what a call gave; `failed` encodes an exception, and raises those that end the call."""
    kind = type(value)
    if kind is types.CoroutineType:
        return {"a": settled(_run(value), encode, failed)}
    if kind is types.AsyncGeneratorType:
        return {"a": _items(value, lambda: _run(anext(value)), StopAsyncIteration, encode, failed)}
    if hasattr(kind, "__next__"):
        return _items(value, lambda: next(value), StopIteration, encode, failed)
    return encode(value)


def _items(
    source: Any,
    following: Callable[[], Any],
    end: type[Exception],
    encode: Callable[[Any], Any],
    failed: Callable[[BaseException], Any],
) -> Any:
    """The items, then the exception that ended them or a mark that there are more."""
    found: list[Any] = []
    while len(found) < MAX_ITEMS:
        try:
            found.append(encode(following()))
        except end:
            return {"g": found}
        except BaseException as error:
            return {"g": [*found, failed(error)]}
    return {"g": [*found, {"w": "more"}]}


def _run(coroutine: Any) -> Any:
    loop = Loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
