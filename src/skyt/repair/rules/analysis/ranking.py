"""Ranks, an order of expressions that does not depend on how variables are called, and linear forms: an int
expression as a sum of atoms with integer coefficients, in that order."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import combinations

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, number
from skyt.repair.rules.analysis.trees import clone, same, walk
from skyt.repair.rules.analysis.types import is_int

SHAPES = ("Call", "Subscript", "Attribute", "BinOp", "Name")


def rank(node: ast.expr, scope: Scope) -> tuple[object, ...]:
    """Constants last; otherwise by kind, the longest first, and by the order in which variables are bound."""
    if isinstance(node, ast.Constant) or int_value(node) is not None:
        return (9, 0, ast.dump(node))
    shape = type(node).__name__
    place = SHAPES.index(shape) if shape in SHAPES else len(SHAPES)
    return (place, -len(walk(node)), _masked(node, scope))


def _masked(node: ast.expr, scope: Scope) -> str:
    """The text of an expression with its variables replaced by the order in which they are bound, its own
    (those of comprehensions) by the order in which they occur in it."""
    order, nodes = binding_order(scope), walk(node)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    own = {name: f"~{i}" for i, name in enumerate(dict.fromkeys(stored))}
    variables = {**{name: f"{place:03d}" for name, place in order.items()}, **own}
    attributes = scope.program.attribute_order
    return spelled(nodes, lambda name: variables.get(name, name), lambda attr: attributes.get(attr, attr))


def spelled(nodes: list[ast.AST], name: Callable[[str], str], attribute: Callable[[str], str]) -> str:
    """Nodes as text, with other names for variables and attributes."""
    parts: list[str] = []
    for n in nodes:
        match n:
            case ast.Name(id=variable):
                parts.append(name(variable))
            case ast.Constant(value=value):
                parts.append(repr(value))
            case ast.Attribute(attr=attr):
                parts.append("." + attribute(attr))
            case _:
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


Linear = tuple[list[tuple[ast.expr, int]], int]  # atoms with coefficients, as they appear, and a constant


def linear(node: ast.expr, scope: Scope) -> Linear | None:
    """The linear form of an expression; None where it is not an int. An atom may come with coefficient 0."""
    atoms: list[tuple[ast.expr, int]] = []
    constant = _collect(node, 1, atoms, scope)
    return None if constant is None else (atoms, constant)


def _collect(node: ast.expr, times: int, atoms: list[tuple[ast.expr, int]], scope: Scope) -> int | None:
    """Add the atoms of an expression, taken so many times, to the others. Its constant; None if no int."""
    if not is_int(scope.type_of(node)):
        return None
    if (value := int_value(node)) is not None:
        return value * times
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            parts = [(operand, -times)]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            parts = [(left, times), (right, times if isinstance(op, ast.Add) else -times)]
        case _ if (scaled := factor(node)) is not None:
            parts = [(scaled[0], scaled[1] * times)]
        case _:
            index = next((i for i, (other, _) in enumerate(atoms) if same(node, other)), len(atoms))
            atoms[index : index + 1] = [(node, times + sum(k for _, k in atoms[index : index + 1]))]
            return 0
    constants = [_collect(part, k, atoms, scope) for part, k in parts]
    return None if None in constants else sum(c or 0 for c in constants)


def factor(node: ast.expr) -> tuple[ast.expr, int] | None:
    """(x, k) of `x * k` or `k * x` with a constant."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return None
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if (number := int_value(other)) is not None:
            return one, number
    return None


def written(form: Linear, scope: Scope) -> ast.expr:
    """The canonical expression of a linear form: positive atoms in order, negative ones, the constant."""
    atoms, constant = [(atom, k) for atom, k in form[0] if k], form[1]
    if all(commute(a, b, scope) for (a, _), (b, _) in combinations(atoms, 2)):
        atoms.sort(key=lambda item: (item[1] < 0, rank(item[0], scope)))
    terms: list[tuple[ast.expr, bool]] = [
        (clone(a) if abs(k) == 1 else ast.BinOp(clone(a), ast.Mult(), number(abs(k))), k > 0)
        for a, k in atoms
    ]
    if constant or not terms:
        terms.append((number(abs(constant)), constant >= 0))
    (result, positive), *rest = terms
    if not positive:
        result = ast.UnaryOp(op=ast.USub(), operand=result)
    for term, positive in rest:
        result = ast.BinOp(left=result, op=ast.Add() if positive else ast.Sub(), right=term)
    return result
