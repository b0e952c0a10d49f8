"""Encoded values as a person would write them, in bounded time and space.

Works on the beginning of the encoded text, as JSON, and never builds the value that it encodes, so it is safe
on texts that a stranger's program made up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import from_json

LIMIT = 200  # characters shown
_LOOK_AT = 8192  # characters of the text that are looked at
_BIG_INT = 400  # hexadecimal digits beyond which an integer stays hexadecimal

_MARKS = {"g": "a generator of ", "a": "a coroutine that returns "}
_BRACKETS = {"t": "()", "s": "{}", "z": ("frozenset({", "})"), "d": "{}"}
_EMPTY = {"s": "set()", "z": "frozenset()"}


def show(text: str, limit: int = LIMIT) -> str:
    """`[1, 'a', {2: 3.5}]` for an encoded value; a text that encodes nothing is shown as it is."""
    whole, shown = len(text) <= _LOOK_AT, ""
    try:
        data = json.loads(text) if whole else from_json(text[:_LOOK_AT], allow_partial="trailing-strings")
        for part in _parts(data):
            shown += part
            if len(shown) > limit:
                break
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        if whole or not shown:
            return short(text, limit)
    return short(shown, limit) if whole else shown[: limit - 3] + "..."


def short(text: str, limit: int = LIMIT) -> str:
    """The beginning of a text, with dots where there is more."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _parts(data: Any) -> Iterator[str]:
    if isinstance(data, list):
        yield from _items(data, *"[]")
    elif not isinstance(data, dict):
        yield repr(data)
    else:
        ((tag, content),) = data.items()
        if tag in _MARKS:
            yield _MARKS[tag]
            yield from _parts(content)
        elif tag not in _BRACKETS:
            yield _SIMPLE[tag](content)
        elif not content and tag in _EMPTY:
            yield _EMPTY[tag]
        else:
            yield from _items(content, *_BRACKETS[tag], pairs=tag == "d")


def _items(items: list[Any], opening: str, closing: str, *, pairs: bool = False) -> Iterator[str]:
    yield opening
    for number, item in enumerate(items):
        yield ", " if number else ""
        if pairs:
            yield from _parts(item[0])
            yield ": "
        yield from _parts(item[1] if pairs else item)
    yield f",{closing}" if opening == "(" and len(items) == 1 else closing


def _integer(digits: str) -> str:
    return str(int(digits, 16)) if len(digits) <= _BIG_INT else digits


_SIMPLE: dict[str, Callable[[Any], str]] = {
    "i": _integer,
    "f": lambda digits: repr(float.fromhex(digits)),
    "c": lambda parts: repr(complex(*map(float.fromhex, parts))),
    "b": lambda digits: repr(bytes.fromhex(digits[: len(digits) & -2])),
    "o": lambda kind: f"<{kind}>",
    "h": lambda kind: f"<{kind}>",
    "x": lambda name: f"raises {name}",
    "w": lambda _: "...",
}
