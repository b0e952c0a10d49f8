"""Operands whose order does not matter stand in one order."""

from __future__ import annotations

import ast
from itertools import combinations

from skyt.repair.rules.analysis.ranking import commute, rank
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import compare
from skyt.repair.rules.analysis.trees import size
from skyt.repair.rules.analysis.values.types import IMMUTABLE, SIZED, comparable, is_int, kind
from skyt.repair.rules.registry import expression


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


def _commutative(node: ast.expr, scope: Scope) -> list[ast.expr] | None:
    """The operands of `==`, of a product, and of `max` and `min`, if their order does not matter."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        sides = [node.left, node.comparators[0]]
        return sides if comparable(*map(scope.type_of, sides)) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call) and scope.builtin(node.func) in {"max", "min"} and not node.keywords:
        sides = node.args
    else:
        return None
    return sides if len(sides) > 1 and all(is_int(scope.type_of(x)) for x in sides) else None


@expression(
    ast.BoolOp,
    ast.Compare,
    ast.BinOp,
    ast.Call,
    needs="for `==`: built-in types; for products, `max` and `min`: integers; operands that can be evaluated "
    "in any order; for `and` and `or`: neighbours without effects that cannot raise, of type bool or where "
    "only truth counts",
    sound="equality, products and extremes are symmetric, and conditions hold together, or not, in whichever "
    "order they are asked",
    fires=(
        "a: int; b: int",
        "if a + b < 9 and a != b:\n return 3 * a\nif 3 == b:\n return max(b, a)\nreturn a",
    ),
    keeps=("a: int; b: int; x: float; y: any", "return [9 // (a + b) < 9 and a != b, 3 * x, 3 == y]"),
)
def order_operands(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    """`3 * n` is `n * 3`, `1 == n` is `n == 1`: constants last, variables in the order in which they are
    bound; short conditions first."""
    if isinstance(node, ast.BoolOp):
        values = list(node.values)
        for start, end in runs(node, scope, boolean):
            values[start:end] = sorted(values[start:end], key=lambda v: (size(v), rank(v, scope)))
        moved = any(a is not b for a, b in zip(values, node.values, strict=True))
        return ast.BoolOp(op=node.op, values=values) if moved else None
    operands = _commutative(node, scope)
    if operands is None:
        return None
    ordered = sorted(operands, key=lambda x: rank(x, scope))
    if all(a is b for a, b in zip(ordered, operands, strict=True)):
        return None
    if not all(commute(a, b, scope) for a, b in combinations(operands, 2)):
        return None
    if isinstance(node, ast.Compare):
        return compare(ordered[0], type(node.ops[0]), ordered[1])
    if isinstance(node, ast.BinOp):
        return ast.BinOp(left=ordered[0], op=node.op, right=ordered[1])
    return ast.Call(func=node.func, args=ordered, keywords=[])  # type: ignore[attr-defined]
