"""Connectives: operands of `and` and `or` that cannot raise stand in one order, equalities in one shape."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.trees import size
from skyt.repair.rules.analysis.values.types import IMMUTABLE, SIZED, kind
from skyt.repair.rules.expressions.comparisons import rank
from skyt.repair.rules.registry import expression

MOVABLE = "neighbouring operands without effects that cannot raise, of type bool or where only truth counts"


def movable(node: ast.expr, scope: Scope, boolean: bool) -> bool:
    """Whether an operand can be asked before or after its neighbours, or not at all."""
    t = scope.type_of(node)
    plain = t == "bool" or (boolean and (t in IMMUTABLE or kind(t) in SIZED))
    return plain and scope.effects(node).total


def runs(node: ast.BoolOp, scope: Scope, boolean: bool) -> list[tuple[int, int]]:
    """(start, end) of each longest run of operands that can change places."""
    free = [movable(v, scope, boolean) for v in node.values]
    found, start = list[tuple[int, int]](), 0
    for i in range(len(free) + 1):
        if i == len(free) or not free[i]:
            if i - start > 1:
                found.append((start, i))
            start = i + 1
    return found


@expression(
    ast.BoolOp,
    needs=MOVABLE,
    sound="such conditions hold together, or not, in whichever order they are asked",
    fires=("a: int; b: int", "return a + b < 9 and a != b"),
    keeps=("a: int; b: int", "return 9 // (a + b) < 9 and a != b"),
)
def order_operands(node: ast.BoolOp, scope: Scope, boolean: bool) -> ast.expr | None:
    """`a != b and c` in one order: short conditions first, variables in the order in which they are bound."""
    values = list(node.values)
    for start, end in runs(node, scope, boolean):
        values[start:end] = sorted(values[start:end], key=lambda v: (size(v), rank(v, scope)))
    if all(a is b for a, b in zip(values, node.values, strict=True)):
        return None
    return ast.BoolOp(op=node.op, values=values)
