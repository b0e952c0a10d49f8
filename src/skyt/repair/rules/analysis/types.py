"""A small lattice of types, enough to know which operators mean what.

A type is a name (`int`, `bool`, `str`, `char` for a string of length one, `float`, `none`, a class of the
program as `object:Name`) or a tuple of a container and its element types. `None` is "no value seen yet", ANY
is "could be anything".
"""

from __future__ import annotations

import ast

from skyt.text.parsing import parse_expression

Type = str | tuple[object, ...] | None
ANY: Type = "any"
IMMUTABLE = frozenset({"int", "bool", "str", "char", "float", "none"})
SIZED = frozenset({"list", "dict", "set", "tuple", "deque"})


def parse_type(annotation: str | None) -> Type:
    """The type an annotation in a contract names; ANY for what the lattice does not know."""
    try:
        return _parsed(parse_expression(annotation or ""))
    except SyntaxError:
        return ANY


def _parsed(node: ast.expr) -> Type:
    match node:
        case ast.Name(id="int" | "bool" | "str" | "float" as name):
            return name
        case ast.Name(id=name) if name in SIZED - {"dict"}:
            return (name, ANY)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return ("dict", _parsed(key), _parsed(value))
        case ast.Subscript(value=ast.Name(id=name), slice=item) if name in SIZED - {"dict"}:
            return (name, ANY if isinstance(item, ast.Tuple) else _parsed(item))
    return ANY


def join(a: Type, b: Type) -> Type:
    """The least type that covers both."""
    if a == b or b is None:
        return a
    if a is None:
        return b
    if isinstance(a, str) and isinstance(b, str):
        return "str" if {a, b} == {"char", "str"} else ANY
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0] and len(a) == len(b):
        return (a[0], *(join(x, y) for x, y in zip(a[1:], b[1:], strict=True)))  # type: ignore[arg-type]
    return ANY


def kind(t: Type) -> str:
    """The outermost name of a type; empty where nothing is known."""
    if isinstance(t, tuple):
        return str(t[0])
    return "" if t is None or t == ANY else t


def element(t: Type) -> Type:
    """What iterating over a value of this type gives."""
    if t is None:
        return None
    if isinstance(t, tuple):
        return join(t[1], t[2]) if t[0] == "pair" else t[1]  # type: ignore[return-value,arg-type]
    return "char" if t in {"str", "char"} else ANY


def is_str(t: Type) -> bool:
    return t in {"str", "char"}


def is_int(t: Type) -> bool:
    return t == "int"


def is_number(t: Type) -> bool:
    return t in {"int", "float", "bool"}


def ordered(a: Type, b: Type) -> bool:
    """Whether `<` and `==` on these two are a total order without surprises (no NaN, no user-defined
    methods)."""
    return (is_int(a) and is_int(b)) or (is_str(a) and is_str(b))


def comparable(a: Type, b: Type) -> bool:
    """Whether `==` between these is symmetric and cannot run user code."""
    return (a in IMMUTABLE and b in IMMUTABLE) or (
        kind(a) in SIZED and kind(a) == kind(b) and all(x in IMMUTABLE for x in (*a[1:], *b[1:]))  # type: ignore[index]
    )
