"""Ranks: an order of expressions that does not depend on how variables are called."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import same, walk

SHAPES = ("Call", "Subscript", "Attribute", "BinOp", "Name")


def rank(node: ast.expr, scope: Scope) -> tuple[object, ...]:
    """Constants last; otherwise by kind, the longest first, and by the order in which variables are bound."""
    if isinstance(node, ast.Constant) or int_value(node) is not None:
        return (9, 0, ast.dump(node))
    shape = type(node).__name__
    place = SHAPES.index(shape) if shape in SHAPES else len(SHAPES)
    return (place, -sum(1 for _ in walk(node)), _masked(node, scope))


def _masked(node: ast.expr, scope: Scope) -> str:
    """The text of an expression with its variables replaced by the order in which they are bound, its own
    (those of comprehensions) by the order in which they occur in it."""
    order, nodes = binding_order(scope), walk(node)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    own = {name: f"~{i}" for i, name in enumerate(dict.fromkeys(stored))}
    attributes = scope.program.attribute_order
    parts: list[str] = []
    for n in nodes:
        if isinstance(n, ast.Name):
            parts.append(own.get(n.id) or (f"{order[n.id]:03d}" if n.id in order else n.id))
        elif isinstance(n, ast.Constant):
            parts.append(repr(n.value))
        elif isinstance(n, ast.Attribute):
            parts.append("." + attributes.get(n.attr, n.attr))
        elif not isinstance(n, ast.expr_context):
            parts.append(type(n).__name__)
    return " ".join(parts)


def binding_order(scope: Scope) -> dict[str, int]:
    """Parameters first, then variables in the order of their first assignment."""
    if scope.info is None:
        return {}
    names = [*scope.info.arguments, *scope.info.assigned]
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def commute(left: ast.expr, right: ast.expr, scope: Scope) -> bool:
    """Whether two operands can be evaluated in either order."""
    first, second = scope.effects(left), scope.effects(right)
    return (first.pure and same(left, right)) or not conflict(first, second, scope)
