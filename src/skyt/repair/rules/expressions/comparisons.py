"""Comparisons: `<` and `<=` only, strict between integers, operands in one order, negations pushed inward."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    OPPOSITE,
    ORDER_OPPOSITE,
    call,
    compare,
    int_value,
    negate,
    number,
)
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import is_int, ordered
from skyt.repair.rules.patterns.conditions import constant, integer, not_constant
from skyt.repair.rules.patterns.conditions import ordered as both_ordered
from skyt.repair.rules.patterns.pieces import first
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression


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
            return canonical(compare(clone(node.left), turned, clone(right)), scope)
    return negate(node)


def canonical(node: ast.Compare, scope: Scope) -> ast.expr:
    """A comparison with its own rules applied: `<` and `<=` only, strict between integers."""
    for _ in range(4):
        new = _turned(node, scope) or strict_integers(node, scope, False)
        if not isinstance(new, ast.Compare):
            return node
        node = new
    return node


@expression(
    ast.UnaryOp,
    needs="for `<` and its kin: operands of type int or str",
    sound="De Morgan's laws; exact opposites among comparisons; a total order without NaN",
    fires=("n: int", "return not n < 3"),
    keeps=("x: float", "return not x < 3"),
)
def push_negation(node: ast.UnaryOp, scope: Scope, boolean: bool) -> ast.expr | None:
    if not isinstance(node.op, ast.Not):
        return None
    inner = node.operand
    if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
        if boolean or scope.type_of(inner.operand) == "bool":
            return inner.operand
        return None
    new = opposite(inner, scope, boolean)
    return None if same(new, node) else new


def _turned(node: ast.Compare, scope: Scope) -> ast.expr | None:
    """`a > b` as `b < a`."""
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if not isinstance(op, ast.Gt | ast.GtE) or not ordered(scope.type_of(left), scope.type_of(right)):
        return None
    return (
        compare(right, ast.Lt if isinstance(op, ast.Gt) else ast.LtE, left)
        if commute(left, right, scope)
        else None
    )


def commute(left: ast.expr, right: ast.expr, scope: Scope) -> bool:
    """Whether two operands can be evaluated in either order."""
    first, second = scope.effects(left), scope.effects(right)
    return (first.pure and same(left, right)) or not conflict(first, second, scope)


@expression(
    ast.Compare,
    needs="operands of type int",
    sound="between integers there is nothing",
    fires=("n: int", "return n <= 3"),
    keeps=("n: float", "return n <= 3"),
)
def strict_integers(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """`n <= 1` is `n < 2`; `a < b + 1` is `a <= b`."""
    p = first(node, "a <= b", "a < b")
    if p is None or not (is_int(scope.type_of(p["a"])) and is_int(scope.type_of(p["b"]))):
        return None
    if isinstance(node.ops[0], ast.LtE):
        if (limit := int_value(p["b"])) is not None:
            return compare(p["a"], ast.Lt, number(limit + 1))
        if (limit := int_value(p["a"])) is not None:
            return compare(number(limit - 1), ast.Lt, p["b"])
    elif (
        int_value(p["a"]) is None
        and int_value(p["b"]) is None
        and (q := first(node, "a < b + 1", "a - 1 < b"))
    ):
        return compare(q["a"], ast.LtE, q["b"])
    return None


SHAPES = ("Call", "Subscript", "Attribute", "BinOp", "Name")


def rank(node: ast.expr, scope: Scope) -> tuple[object, ...]:
    """An order of expressions that does not depend on how variables are called."""
    if isinstance(node, ast.Constant) or int_value(node) is not None:
        return (9, 0, ast.dump(node))
    shape = type(node).__name__
    place = SHAPES.index(shape) if shape in SHAPES else len(SHAPES)
    return (place, -sum(1 for _ in walk(node)), masked(node, scope))


def masked(node: ast.expr, scope: Scope) -> str:
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


OPERATORS = ("<", "<=", ">", ">=", "==", "!=")
rewrite(
    "split-chain",
    *((f"a {p} b {q} c", f"a {p} b and b {q} c") for p in OPERATORS for q in OPERATORS),
    because="`a < b < c` is `a < b and b < c` when evaluating b again gives the same value",
    fires=("n: int; xs: list[int]", "return [0 < n < 9, 0 < 7 // n < 9]"),
    keeps=("n: int; xs: list[int]", "return 0 < xs.pop() < 9"),
)
rewrite(
    "less-than",
    ("a > b", "b < a"),
    ("a >= b", "b <= a"),
    needs=[both_ordered("a", "b")],
    because="`a > b` and `b < a` are the same comparison on built-in types",
    fires=("n: int; m: int", "return n > m"),
    keeps=("x: float; y: float", "return x > y"),
)
rewrite(
    "add-constant",
    ("a < b - k", "a + k < b"),
    needs=[integer("a", "b"), constant("k"), not_constant("a")],
    because="adding the same constant to both sides keeps an order of integers",
    fires=("n: int; m: int", "return n < m - 1"),
    keeps=("x: float; y: float", "return x < y - 1"),
)
