"""Conditions that the path, the domain or the types already decide."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import compare, int_value, number
from skyt.repair.rules.analysis.values.types import is_int, kind
from skyt.repair.rules.expressions.comparisons import opposite
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


@expression(
    ast.Compare,
    needs="bounds from the contract's domain or from the path: only one integer is left",
    sound="an integer between k and k is k",
    fires=("n: int >= 0", "return n < 1"),
    keeps=("n: int", "return n < 1"),
)
def only_integer_left(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """With `n >= 0`, `n < 1` is `n == 0`, and `n != 0` is what `0 < n` says."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Lt):
        return None
    left, right = node.left, node.comparators[0]
    if not (is_int(scope.type_of(left)) and is_int(scope.type_of(right))):
        return None
    if (value := int_value(right)) is not None and scope.interval(left)[0] == value - 1:
        return compare(left, ast.Eq, number(value - 1))
    if (value := int_value(left)) is not None and scope.interval(right)[0] == value:
        return compare(right, ast.NotEq, number(value))
    return None


@expression(
    ast.Call,
    needs="the parameter's type from the contract",
    sound="in-domain arguments have the contract's types (an int is never a bool there)",
    fires=("n: int", "return isinstance(n, int)"),
    keeps=("n: any", "return isinstance(n, int)"),
)
def known_instance(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`isinstance(n, int)` is True when n is an int."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "isinstance" and len(node.args) == 2):
        return None
    if not scope.program.facts.out_of_domain_free or not scope.effects(node.args[0]).total:
        return None
    t = kind(scope.type_of(node.args[0]))
    t = "str" if t == "char" else t
    if t not in {"int", "str", "list", "float", "bool", "dict", "set", "tuple"}:
        return None
    classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    names = [c.id for c in classes if isinstance(c, ast.Name)]
    if len(names) != len(classes) or any(scope.is_local(n) for n in names):
        return None
    above = {"bool": {"bool", "int", "object"}}.get(t, {t, "object"})
    if above & set(names):
        return ast.Constant(value=True)
    plain = {"int", "str", "list", "float", "bool", "dict", "set", "tuple"}
    return ast.Constant(value=False) if set(names) <= plain else None
