"""What kind of values a parameter takes: from its type hint and from the values that it is given.

Types alone come from here. How large the drawn values are is taken from the given ones, and never becomes a
bound of the domain: rewriting rules believe what a domain says, and examples do not say what is excluded.
A bool among integers does not make a parameter a union, since Python takes it for an integer.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Spec = dict[str, Any]
_PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "bytes": bytes, "None": type(None)}
_CONTAINERS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict}
_SAME_AS = {
    "Sequence": "list",
    "Iterable": "list",
    "Collection": "list",
    "Mapping": "dict",
    "MutableMapping": "dict",
}
_FIXED = 8  # items up to which tuples are read as records of one length
_MOST = 20_000  # items of one kind that are looked at


class NoStrategyError(ValueError):
    """A type of which no values can be drawn."""


def spec_of(values: Sequence[Any], hint: ast.expr | None = None) -> Spec:
    """The spec that covers the hint and all values; NoStrategyError where nothing is known."""
    values = values[:_MOST]
    hinted = _read(hint)
    kinds = dict.fromkeys([*hinted, *(type(value) for value in values)])
    if len(kinds) > 1 and bool in kinds and (int in kinds or float in kinds):
        del kinds[bool]
    if not kinds:
        raise NoStrategyError("neither a type hint nor an input says what values it takes")
    several = [_spec(kind, [v for v in values if type(v) is kind], hinted.get(kind, ())) for kind in kinds]
    if len(several) == 1:
        return several[0]
    if type(None) in kinds:
        others = [spec for spec in several if spec["type"] != "none"]
        return {"type": "optional", "of": others[0] if len(others) == 1 else {"type": "union", "of": others}}
    return {"type": "union", "of": several}


def _read(hint: ast.expr | None) -> dict[type, tuple[ast.expr, ...]]:
    """The types that a hint allows, each with the hints of its parts. `Any` says nothing."""
    if hint is None:
        return {}
    if isinstance(hint, ast.Constant):
        if hint.value is None:
            return {type(None): ()}
        if isinstance(hint.value, str):
            try:
                return _read(ast.parse(hint.value, mode="eval").body)
            except SyntaxError:
                raise NoStrategyError(f"no values can be drawn for the type hint {hint.value!r}") from None
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        return {**_read(hint.left), **_read(hint.right)}
    base = hint.value if isinstance(hint, ast.Subscript) else hint
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    parts: tuple[ast.expr, ...] = ()
    if isinstance(hint, ast.Subscript):
        parts = tuple(hint.slice.elts) if isinstance(hint.slice, ast.Tuple) else (hint.slice,)
    if name in ("Any", "object"):
        return {}
    if name == "Optional":
        return {**_read(parts[0]), type(None): ()}
    if name == "Union":
        return {kind: inner for part in parts for kind, inner in _read(part).items()}
    lowered = _SAME_AS.get(name, name.lower() if name.lower() in _CONTAINERS else name)
    if lowered in _CONTAINERS:
        return {_CONTAINERS[lowered]: parts}
    if name in _PLAIN:
        return {_PLAIN[name]: ()}
    raise NoStrategyError(f"no values can be drawn for the type hint {ast.unparse(hint)!r}")


def _spec(kind: type, values: list[Any], parts: tuple[ast.expr, ...]) -> Spec:
    if kind not in _MAKERS:
        raise NoStrategyError(f"no values can be drawn for the type {kind.__name__!r}")
    return _MAKERS[kind](values, parts)


def _integer(values: list[int], _parts: object) -> Spec:
    if not values:
        return {"type": "int"}
    low, high = _usual(values)
    return {"type": "int", "sample_min": low, "sample_max": high}


def _float(values: list[float], _parts: object) -> Spec:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return {"type": "float"}
    low, high = _usual(finite)
    return {"type": "float", "sample_min": low, "sample_max": high}


def _string(values: list[str], _parts: object) -> Spec:
    spec: Spec = {"type": "str", "sample_length": max(4, _length(values))}
    seen = {character for value in values for character in value}
    if seen:
        spec["sample_alphabet"] = "".join(sorted(seen))
    return spec


def _sequence(name: str) -> Callable[[list[Any], tuple[ast.expr, ...]], Spec]:
    def make(values: list[Any], parts: tuple[ast.expr, ...]) -> Spec:
        return {
            "type": name,
            "elements": _elements([item for value in values for item in value], parts),
            "sample_length": max(2, _length(values)),
        }

    return make


def _tuple(values: list[tuple[Any, ...]], parts: tuple[ast.expr, ...]) -> Spec:
    endless = bool(parts) and isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
    lengths = {len(value) for value in values}
    if parts and not endless and lengths <= {len(parts)}:
        columns = [[value[at] for value in values] for at in range(len(parts))]
        return {"type": "tuple", "elements": [spec_of(c, p) for c, p in zip(columns, parts, strict=True)]}
    if not parts and len(values) > 1 and len(lengths) == 1 and 0 < min(lengths) <= _FIXED:
        return {"type": "tuple", "elements": [spec_of(column) for column in zip(*values, strict=True)]}
    return _sequence("tuple")(values, parts[:1] if endless else ())


def _dict(values: list[dict[Any, Any]], parts: tuple[ast.expr, ...]) -> Spec:
    keys = [key for value in values for key in value]
    items = [item for value in values for item in value.values()]
    hints = parts if len(parts) == 2 else (None, None)
    return {
        "type": "dict",
        "keys": _elements(keys, hints[:1]),
        "values": _elements(items, hints[1:]),
        "sample_length": max(2, _length(values)),
    }


def _elements(items: list[Any], hints: tuple[ast.expr | None, ...]) -> Spec:
    """The spec of a container's items; of one that is always empty, integers will do."""
    hint = hints[0] if hints else None
    return spec_of(items, hint) if items or _read(hint) else {"type": "int"}


def _usual(values: list[Any]) -> tuple[Any, Any]:
    """Where all but the outermost twentieth of the values at each end lie: outliers are rare, and dear.
    Numbers that are never negative begin at the least of them."""
    ordered = sorted(values)
    cut = len(ordered) // 20
    return ordered[0] if ordered[0] >= 0 else ordered[cut], ordered[-1 - cut]


def _length(values: Iterable[Any]) -> int:
    lengths = sorted(len(value) for value in values)
    return lengths[-1 - len(lengths) // 20] if lengths else 4


_MAKERS: dict[type, Callable[[Any, Any], Spec]] = {
    int: _integer,
    float: _float,
    bool: lambda _values, _parts: {"type": "bool"},
    type(None): lambda _values, _parts: {"type": "none"},
    str: _string,
    bytes: lambda _values, _parts: {"type": "bytes"},
    list: _sequence("list"),
    tuple: _tuple,
    set: _sequence("set"),
    frozenset: _sequence("frozenset"),
    dict: _dict,
}
