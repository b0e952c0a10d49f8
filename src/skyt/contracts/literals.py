"""Values as Python literals: read without running anything, written so that they can be pasted.

YAML and JSON have no tuples, sets, bytes or infinite floats. In a contract such a value is written as
`{python: "(1, 2)"}`, anywhere inside a value. Only literals are read, and calls of `set`, `frozenset` and
`float`, which have no literal of their own.
"""

from __future__ import annotations

import ast
import math
from typing import Annotated, Any

import pydantic

from skyt.text.parsing import parse_expression

_KEY = "python"
_MAKERS = {"set": set, "frozenset": frozenset, "float": float}


def read_literal(text: str) -> Any:
    """The value of a Python literal. Raises ValueError for anything else."""
    try:
        return literal(parse_expression(text.strip()))
    except (SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError(f"{text[:60]!r} is not a Python literal") from None


def literal(node: ast.expr) -> Any:
    """The value of a tree that is a literal."""
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List(elts=items):
            return [literal(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(literal(item) for item in items)
        case ast.Set(elts=items):
            return {literal(item) for item in items}
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {literal(k): literal(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _MAKERS and len(args) < 2:
            return _MAKERS[name](*(literal(arg) for arg in args))
        case ast.UnaryOp() | ast.BinOp():
            return ast.literal_eval(node)  # signs and complex numbers
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not a Python literal")


def write_literal(value: Any) -> str:
    """The value as Python text that gives it back: `[1, float('nan')]`."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f"float('{value}')"
    if kind is list:
        return f"[{_written(value)}]"
    if kind is tuple:
        return f"({_written(value)}{',' * (len(value) == 1)})"
    if kind is set or kind is frozenset:
        inside = f"{{{', '.join(sorted(map(write_literal, value)))}}}" if value else ""
        return (inside or "set()") if kind is set else f"frozenset({inside})"
    if kind is dict:
        return f"{{{', '.join(f'{write_literal(k)}: {write_literal(v)}' for k, v in value.items())}}}"
    if kind is int and value.bit_length() > 10_000:
        return hex(value)  # Python refuses to write so many decimal digits
    return repr(value)


def _written(values: Any) -> str:
    return ", ".join(map(write_literal, values))


def _read(value: Any) -> Any:
    """A value from YAML or JSON, with `{python: ...}` replaced."""
    if type(value) is dict:
        if set(value) == {_KEY} and isinstance(value[_KEY], str):
            return read_literal(value[_KEY])
        return {_read_key(key): _read(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_read(item) for item in value)
    if value is None or type(value) in (bool, int, float, str, bytes, set, frozenset, complex):
        return value
    raise ValueError(f"a {type(value).__name__} is not a value that a contract can have")


def _read_key(key: Any) -> Any:
    if type(key) in (list, set, dict):
        raise ValueError(f"{key!r} cannot be the key of a dict")
    return key


def _plain(value: Any) -> Any:
    """The value as JSON data that `_read` gives back exactly."""
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value) and set(value) != {_KEY}:
        return {key: _plain(item) for key, item in value.items()}
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    return {_KEY: write_literal(value)}


Value = Annotated[Any, pydantic.BeforeValidator(_read), pydantic.PlainSerializer(_plain)]
"""A plain value of a contract: builtin scalars and containers, exactly as they are, also through JSON."""
