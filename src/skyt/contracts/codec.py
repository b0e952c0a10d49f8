"""Plain values as JSON text: what crosses the wall between the trusted side and a program.

Only the builtin types themselves are values, never their subclasses. Anything else becomes an opaque tag that
equals no value. The exact form keeps everything that Python can tell apart; looser forms, chosen by flags,
give equal texts to dicts that differ in order alone, to 0.0 and -0.0, and to a `Counter` and its dict.

Texts that come out of the sandbox are compared and shown as texts. They are decoded only inside it: building
a value from a stranger's text has no useful bound (a set of integers of one hash takes quadratic time).
This module is loaded inside the jail, too, so it imports nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAX_NODES = 200_000
MAX_DEPTH = 60
MAX_INT_BITS = 1 << 20
MAX_TEXT = 1 << 19  # characters up to which a string travels as it is, and beyond which as a digest
_PLAIN_INT = 1 << 63


to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Opaque:
    """A result that is not plain data (an object, a generator, something too large): equal to nothing."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


def dumps(value: Any, *, ordered: bool = True, signed_zero: bool = True, subclasses: bool = False) -> str:
    """The text of a value; equal texts mean equal values of equal types."""
    return to_json(encode(value, ordered=ordered, signed_zero=signed_zero, subclasses=subclasses))


def loads(text: str) -> Any:
    """The value of a text. Raises ValueError on anything `dumps` cannot have written.

    Only for texts of our own making, or inside the sandbox.
    """
    try:
        return decode(_DECODER.decode(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode(
    value: Any,
    *,
    ordered: bool = True,
    signed_zero: bool = True,
    subclasses: bool = False,
    whole: bool = False,
) -> Any:
    """JSON data for a value: scalars and lists as they are, every other type as {tag: content}.

    `ordered`: keep the order of dicts, instead of sorting their pairs. `signed_zero`: tell -0.0 from 0.0.
    `subclasses`: take an instance of a builtin type's subclass for the plain value inside it. `whole`: long
    strings as they are, as arguments need; without it a digest stands for them, which is enough to compare.
    """
    return _encode(value, [MAX_NODES], MAX_DEPTH, (ordered, signed_zero, subclasses, whole))


def _encode(value: Any, budget: list[int], depth: int, form: tuple[bool, bool, bool, bool]) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        if -_PLAIN_INT < value < _PLAIN_INT:
            return value
        return {"i": hex(value)} if value.bit_length() <= MAX_INT_BITS else {"o": "int too large"}
    if kind is str:
        if len(value) > MAX_TEXT and not form[3]:
            return {"h": digest(value)}
        budget[0] -= len(value) >> 4
        return value if budget[0] > 0 else {"o": "too large"}
    if kind is float:
        return {"f": (value if value or form[1] else 0.0).hex()}
    if depth == 0:
        return {"o": "nested too deeply"}
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        budget[0] -= len(value) + 1
        if budget[0] < 0:
            return {"o": "too large"}
        items = [
            item
            if type(item) is int and -_PLAIN_INT < item < _PLAIN_INT
            else _encode(item, budget, depth - 1, form)
            for item in (value if kind is list or kind is tuple else _in_order(value))
        ]
        if kind is list:
            return items
        if kind is tuple:
            return {"t": items}
        return {"s" if kind is set else "z": items if _all_floats(value) else sorted(items, key=to_json)}
    if kind is dict:
        budget[0] -= 2 * len(value) + 1
        if budget[0] < 0:
            return {"o": "too large"}
        pairs = [
            [_encode(key, budget, depth - 1, form), _encode(item, budget, depth - 1, form)]
            for key, item in value.items()
        ]
        return {"d": pairs if form[0] else sorted(pairs, key=to_json)}
    if kind is bytes:
        budget[0] -= len(value) >> 3
        return {"b": value.hex()} if budget[0] > 0 else {"o": "too large"}
    if kind is complex:
        parts = (value.real, value.imag)
        return {"c": [(part if part or form[1] else 0.0).hex() for part in parts]}
    if form[2]:
        for base, inside in _INSIDE.items():
            if issubclass(kind, base):
                return _encode(inside(value), budget, depth - 1, form)
    name = type.__dict__["__name__"].__get__(kind)
    return {"o": "object of type " + name[:100] if type(name) is str else "object"}


# The plain value inside an instance of a subclass, whatever methods the subclass overrides.
_INSIDE: dict[type, Any] = {
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    str: str.__str__,
    int: lambda value: int.__add__(value, 0),
    float: float.__float__,
}


def digest(text: str) -> str:
    """What stands for a string that is too long to travel; equal for equal strings."""
    return f"str of {len(text)}, sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _all_floats(values: Any) -> bool:
    return all(type(value) is float for value in values)


def _in_order(values: Any) -> Any:
    """A set of floats by size (NaN last), so that sets that are nearly equal are so element by element."""
    return sorted(values, key=lambda value: (value != value, value)) if _all_floats(values) else values


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
    "h": Opaque,
    "a": lambda value: decode(value),  # what a coroutine gave
    "g": lambda items: [decode(item) for item in items if item != {"w": "more"}],  # of a generator
    "e": loads,  # a value that arrives as the text another process gave for it
}
