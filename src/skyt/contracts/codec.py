"""Plain values as JSON text, exactly: what crosses the wall between the jail and the program.

Only the builtin types themselves are values, never their subclasses. Anything else becomes an opaque tag that
equals no value. This module is also loaded inside the jail, so it imports nothing but the standard library.
"""

from __future__ import annotations

import json
from typing import Any

MAX_NODES = 200_000
MAX_DEPTH = 60
MAX_INT_BITS = 1 << 20
_PLAIN_INT = 1 << 63


to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Opaque:
    """A result that is not plain data (an object, a generator, something too large): equal to nothing."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


def dumps(value: Any) -> str:
    """The text of a value; equal texts mean equal values of equal types."""
    return to_json(encode(value))


def loads(text: str) -> Any:
    """The value of a text. Raises ValueError on anything `dumps` cannot have written."""
    try:
        return decode(_DECODER.decode(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode(value: Any) -> Any:
    """JSON data for a value: scalars and lists as they are, every other type as {tag: content}."""
    return _encode(value, [MAX_NODES], MAX_DEPTH)


def _encode(value: Any, budget: list[int], depth: int) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        if -_PLAIN_INT < value < _PLAIN_INT:
            return value
        return {"i": hex(value)} if value.bit_length() <= MAX_INT_BITS else {"o": "int too large"}
    if kind is str:
        budget[0] -= len(value) >> 4
        return value if budget[0] > 0 else {"o": "too large"}
    if kind is float:
        return {"f": value.hex()}
    if depth == 0:
        return {"o": "nested too deeply"}
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        budget[0] -= len(value) + 1
        if budget[0] < 0:
            return {"o": "too large"}
        items = [
            item
            if type(item) is int and -_PLAIN_INT < item < _PLAIN_INT
            else _encode(item, budget, depth - 1)
            for item in value
        ]
        if kind is list:
            return items
        if kind is tuple:
            return {"t": items}
        return {"s" if kind is set else "z": sorted(items, key=to_json)}
    if kind is dict:
        budget[0] -= 2 * len(value) + 1
        if budget[0] < 0:
            return {"o": "too large"}
        return {
            "d": [[_encode(k, budget, depth - 1), _encode(v, budget, depth - 1)] for k, v in value.items()]
        }
    if kind is bytes:
        budget[0] -= len(value) >> 3
        return {"b": value.hex()} if budget[0] > 0 else {"o": "too large"}
    if kind is complex:
        return {"c": [value.real.hex(), value.imag.hex()]}
    name = type.__dict__["__name__"].__get__(kind)
    return {"o": "object of type " + name[:100] if type(name) is str else "object"}


def decode(data: Any) -> Any:
    """The inverse of `encode`; ValueError on foreign shapes."""
    kind = type(data)
    if kind is list:
        return [item if type(item) is int else decode(item) for item in data]
    if kind is not dict:
        return data
    if len(data) != 1:
        raise ValueError("not an encoded value")
    ((tag, content),) = data.items()
    try:
        return _DECODERS[tag](content)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not an encoded value: {tag[:20]!r}") from error


def _hex_int(text: str) -> int:
    if len(text) > MAX_INT_BITS // 4 + 4:
        raise ValueError("int too large")
    return int(text, 16)


def _pairs(content: list[Any]) -> dict[Any, Any]:
    return {decode(key): decode(value) for key, value in content}


def _no_float(text: str) -> float:
    raise ValueError(f"bare float {text!r}")


_DECODER = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float)
_DECODERS: dict[str, Any] = {
    "i": _hex_int,
    "f": float.fromhex,
    "t": lambda items: tuple(decode(item) for item in items),
    "s": lambda items: {decode(item) for item in items},
    "z": lambda items: frozenset(decode(item) for item in items),
    "d": _pairs,
    "b": bytes.fromhex,
    "c": lambda parts: complex(float.fromhex(parts[0]), float.fromhex(parts[1])),
    "o": Opaque,
}
