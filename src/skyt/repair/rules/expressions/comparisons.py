"""Comparisons: `<` and `<=` only, strict between integers, operands in one order, negations pushed inward."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import OPPOSITE, ORDER_OPPOSITE, call, compare, negate
from skyt.repair.rules.analysis.trees import clone
from skyt.repair.rules.analysis.values.types import ordered
from skyt.repair.rules.patterns.conditions import Where, constant, integer, not_constant
from skyt.repair.rules.patterns.conditions import ordered as both_ordered
from skyt.repair.rules.patterns.making import Made, folded
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found


def opposite(node: ast.expr, scope: Scope, boolean: bool = True) -> ast.expr:
    """`not node` pushed inward: exact opposites, De Morgan, and total orders. Where the value itself counts
    and not only its truth, the result is a bool as `not node` is."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        plain = boolean or scope.type_of(node.operand) == "bool"
        return clone(node.operand) if plain else call("bool", clone(node.operand))
    if isinstance(node, ast.BoolOp):
        op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.BoolOp(op=op, values=[opposite(v, scope, boolean) for v in node.values])
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        op_type, right = type(node.ops[0]), node.comparators[0]
        if op_type in OPPOSITE or (
            op_type in ORDER_OPPOSITE and ordered(scope.type_of(node.left), scope.type_of(right))
        ):
            turned = {**OPPOSITE, **ORDER_OPPOSITE}[op_type]
            return _canonical(compare(clone(node.left), turned, clone(right)), scope)
    return negate(node)


def _canonical(node: ast.expr, scope: Scope) -> ast.expr:
    """A comparison with its own rules applied."""
    for _ in range(4):
        new = less_than(node, scope, False) or strict_integers(node, scope, False)
        if new is None:
            break
        node = new
    return node


def opposite_of(c: str) -> Made:
    """`not c`, pushed inward."""

    def compute(found: Found, where: Where) -> ast.expr:
        return opposite(found[c], where.scope, where.boolean)  # type: ignore[arg-type]

    return Made(f"`not {c}`, pushed inward", compute, like=f"not {c}")


OPERATORS = ("<", "<=", ">", ">=", "==", "!=")
rewrite(
    "push-negation",
    ("not c", "d"),
    made={"d": opposite_of("c")},
    because="De Morgan's laws; exact opposites among comparisons; a total order without NaN",
    fires=("n: int", "return not n < 3"),
    keeps=("x: float", "return not x < 3"),
)
rewrite(
    "split-chain",
    *((f"a {p} b {q} c", f"a {p} b and b {q} c") for p in OPERATORS for q in OPERATORS),
    because="`a < b < c` is `a < b and b < c` when evaluating b again gives the same value",
    fires=("n: int; xs: list[int]", "return [0 < n < 9, 0 < 7 // n < 9]"),
    keeps=("n: int; xs: list[int]", "return 0 < xs.pop() < 9"),
)
less_than = rewrite(
    "less-than",
    ("a > b", "b < a"),
    ("a >= b", "b <= a"),
    needs=[both_ordered("a", "b")],
    because="`a > b` and `b < a` are the same comparison on built-in types",
    fires=("n: int; m: int", "return n > m"),
    keeps=("x: float; y: float", "return x > y"),
)
strict_integers = rewrite(
    "strict-integers",
    ("a <= b", "a < m"),
    ("a <= b", "k < b"),
    ("a < b + 1", "a <= b", [not_constant("a", "b")]),
    ("a - 1 < b", "a <= b", [not_constant("a", "b")]),
    needs=[integer("a", "b")],
    made={"m": folded("b + 1"), "k": folded("a - 1")},
    because="between integers there is nothing",
    fires=("n: int; m: int", "return [n <= 3, n < m + 1]"),
    keeps=("n: float; m: int", "return [n <= 3, n < m + 1]"),
)
rewrite(
    "add-constant",
    ("a < b - k", "a + k < b"),
    needs=[integer("a", "b"), constant("k"), not_constant("a")],
    because="adding the same constant to both sides keeps an order of integers",
    fires=("n: int; m: int", "return n < m - 1"),
    keeps=("x: float; y: float", "return x < y - 1"),
)
