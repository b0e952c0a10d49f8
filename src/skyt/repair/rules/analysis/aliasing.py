"""Aliasing: values put into a container through a path that inference does not follow widen every container
of that kind."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyt.repair.rules.analysis.values.types import ANY, Type, join

FRESH_CALLS = frozenset(
    {"list", "sorted", "dict", "set", "tuple", "range", "str", "int", "len", "enumerate", "zip"}
)
FRESH_METHODS = frozenset(
    {"split", "splitlines", "rsplit", "copy", "join", "lower", "upper", "strip", "replace"}
)


def made_here(value: ast.expr) -> bool:
    """Whether an expression gives a container that nothing else names."""
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Name):
            return value.func.id in FRESH_CALLS
        return isinstance(value.func, ast.Attribute) and (
            value.func.attr in FRESH_METHODS
            or (isinstance(value.func.value, ast.Name) and value.func.value.id == "collections")
        )
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Slice)
    return not isinstance(value, ast.Name | ast.Attribute | ast.IfExp | ast.BoolOp)


def defaulting(values: Sequence[ast.expr | None]) -> bool:
    """Whether all of these make a `defaultdict` or `Counter` (and there is one)."""
    names = {ast.unparse(v.func) if isinstance(v, ast.Call) else "" for v in values}
    return bool(names) and names <= {"collections.defaultdict", "collections.Counter"}


def widened(t: Type, more: Type) -> Type:
    """The type, with every container in it of the kind of `more` able to hold what `more` holds."""
    if not isinstance(t, tuple):
        return t
    inner = tuple(widened(x, more) for x in t[1:])  # type: ignore[arg-type]
    if isinstance(more, tuple) and t[0] == more[0] and len(t) == len(more):
        inner = tuple(join(x, y) for x, y in zip(inner, more[1:], strict=True))  # type: ignore[arg-type]
    elif more == ANY and t[0] in {"list", "deque", "dict", "set"}:
        inner = (ANY,) * len(inner)
    return (t[0], *inner)
