"""Conditions that the path, the domain or the types already decide."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.expressions.comparisons import opposite
from skyt.repair.rules.patterns.conditions import at_least, domain_only, instance, number
from skyt.repair.rules.patterns.making import folded
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression


@expression(
    ast.Compare,
    ast.Name,
    ast.UnaryOp,
    needs="the condition, or its opposite, holds on every path here; or bounds from the contract's domain"
    " decide it",
    sound="nothing it reads has changed since it was decided; in-domain values lie within the bounds",
    fires=("n: int >= 0", "if n < 0:\n return 1\nreturn 2"),
    keeps=("n: int", "if n < 0:\n return 1\nreturn 2"),
)
def decided_condition(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        verdict = _by_bounds(node, scope)
        if verdict is not None and scope.effects(node).total:
            return ast.Constant(value=verdict)
    if not scope.known or not (boolean or isinstance(node, ast.Compare)):
        return None
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return None
    verdict = scope.implied(node)
    if verdict is None and scope.implied(opposite(node, scope)):
        verdict = False
    if verdict is None or not scope.effects(node).pure:
        return None
    return ast.Constant(value=verdict)


def _by_bounds(node: ast.Compare, scope: Scope) -> bool | None:
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if not (is_int(scope.type_of(left)) and is_int(scope.type_of(right))):
        return None
    (a, b), (c, d) = scope.interval(left), scope.interval(right)
    if isinstance(op, ast.Eq | ast.NotEq):
        apart = (b is not None and c is not None and b < c) or (a is not None and d is not None and a > d)
        return isinstance(op, ast.NotEq) if apart else None
    if not isinstance(op, ast.Lt | ast.LtE):
        return None
    reach = isinstance(op, ast.LtE)
    if b is not None and c is not None and b < c + reach:
        return True
    return False if a is not None and d is not None and a >= d + reach else None


rewrite(
    "only-integer-left",
    ("a < k", "a == m", [number("k"), at_least(0, "a - k + 1")]),
    ("k < b", "b != k", [number("k"), at_least(0, "b - k")]),
    made={"m": folded("k - 1")},
    because="of the integers from k on, only k is below k + 1, and all but k are above k",
    fires=("n: int >= 0", "return [n < 1, 0 < n]"),
    keeps=("n: int", "return [n < 1, 0 < n]"),
)
rewrite(
    "known-instance",
    ("isinstance(x, k)", "True", [instance("x", "k")]),
    ("isinstance(x, k)", "False", [instance("x", "k", False)]),
    needs=[domain_only],
    because="in-domain arguments have the contract's types (an int is never a bool there)",
    fires=("n: int", "return [isinstance(n, int), isinstance(n, (str, list))]"),
    keeps=("n: any; m: int", "return [isinstance(n, int), isinstance(m, (str, Exception))]"),
)
