"""Shapes: what can be seen of a node at a glance, so that rules which cannot fit are never tried."""

from __future__ import annotations

import ast

Shape = tuple[object, ...]
OPERATIONS = frozenset({ast.BinOp, ast.UnaryOp, ast.AugAssign})
BRANCHING = frozenset({ast.If, ast.For, ast.While})


def shape(node: ast.AST) -> Shape:
    """What can be seen of a node at a glance; equal for a pattern and all that it matches."""
    kind = node.__class__
    if kind is ast.Compare:
        return kind, *[op.__class__ for op in node.ops]  # type: ignore[attr-defined]
    if kind in OPERATIONS:
        return kind, node.op.__class__  # type: ignore[attr-defined]
    if kind is ast.Call:
        function = node.func  # type: ignore[attr-defined]
        name = function.id if function.__class__ is ast.Name else getattr(function, "attr", "")
        return kind, name, len(node.args)  # type: ignore[attr-defined]
    return (kind, bool(node.orelse)) if kind in BRANCHING else (kind,)  # type: ignore[attr-defined]


def head(s: ast.stmt) -> ast.expr | None:
    """The expression that a statement starts with."""
    return getattr(s, "value", None) or getattr(s, "test", None) or getattr(s, "iter", None)


def look(s: ast.stmt) -> tuple[Shape, Shape]:
    """The shape of a statement, and of the expression that it starts with."""
    first = head(s)
    return shape(s), () if first is None else shape(first)
