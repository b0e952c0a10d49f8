"""Orientation: of two ways to ask a question, the one that normal forms prefer."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import int_value, leaves, load
from skyt.repair.rules.control.branches import ALWAYS, branch, operands, replaced
from skyt.repair.rules.expressions.comparisons import opposite
from skyt.repair.rules.registry import Place, block


@block(
    ast.If,
    needs="the condition's type is bool",
    sound="returning True or False by a boolean condition is returning the condition (or its negation)",
)
def return_condition(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    if len(body) < 2:
        return None
    s, t = body[-2], body[-1]
    if not (
        isinstance(s, ast.If) and not s.orelse and len(s.body) == 1 and isinstance(s.body[0], ast.Return)
    ):
        return None
    if not isinstance(t, ast.Return) or t.value is None:
        return None
    answer = s.body[0].value
    if not (isinstance(answer, ast.Constant) and isinstance(answer.value, bool)):
        return _return_connective(body, s.test, answer, t.value, place)
    test, rest = s.test, t.value
    if is_quantifier(rest.values[-1] if isinstance(rest, ast.BoolOp) else rest):
        return None  # a loop in disguise: see expand-quantifier
    boolean = place.scope.type_of(test) == "bool"
    if isinstance(rest, ast.Constant) and isinstance(rest.value, bool) and rest.value is not answer.value:
        if answer.value is False:
            return [*body[:-2], ast.Return(value=ast.UnaryOp(op=ast.Not(), operand=test))]
        value = test if boolean else ast.Call(func=load("bool"), args=[test], keywords=[])
        return [*body[:-2], ast.Return(value=value)]
    if answer.value is False:
        joined = ast.BoolOp(
            op=ast.And(), values=[opposite(test, place.scope, False), *operands(rest, ast.And)]
        )
        return [*body[:-2], ast.Return(value=joined)]
    if boolean:
        joined = ast.BoolOp(op=ast.Or(), values=[*operands(test, ast.Or), *operands(rest, ast.Or)])
        return [*body[:-2], ast.Return(value=joined)]
    return None


def _return_connective(
    body: list[ast.stmt], test: ast.expr, value: ast.expr | None, other: ast.expr, place: Place
) -> list[ast.stmt] | None:
    """`if a: return b` `return False` is `return a and b`; with True it is `return not a or b`."""
    if value is None or not (isinstance(other, ast.Constant) and isinstance(other.value, bool)):
        return None
    if place.scope.type_of(test) != "bool" or place.scope.type_of(value) != "bool":
        return None
    if is_quantifier(value.values[-1] if isinstance(value, ast.BoolOp) else value):
        return None
    if other.value:
        joined = ast.BoolOp(
            op=ast.Or(), values=[opposite(test, place.scope, False), *operands(value, ast.Or)]
        )
    else:
        joined = ast.BoolOp(op=ast.And(), values=[*operands(test, ast.And), *operands(value, ast.And)])
    return [*body[:-2], ast.Return(value=joined)]


def is_quantifier(node: ast.expr) -> bool:
    """`any(…)` or `all(…)` over a generator, possibly negated."""
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"any", "all"}
        and len(node.args) == 1
        and isinstance(node.args[0], ast.GeneratorExp)
    )


def negative(test: ast.expr) -> bool:
    """Whether a condition is the one of each pair of opposites that normal forms avoid."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return True
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.Or)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if isinstance(test.ops[0], ast.Lt) and int_value(test.left) is not None:
            return True
        return isinstance(test.ops[0], ast.NotEq | ast.NotIn | ast.IsNot | ast.LtE | ast.GtE | ast.Gt)
    return False


@block(ast.If, needs=ALWAYS, sound="swapping two branches under the negated condition changes nothing")
def orient_branches(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not isinstance(s, ast.If) or not negative(s.test):
            continue
        test = negation(s.test, place)
        if test is None or negative(test):
            continue
        if s.orelse and not leaves(s.body) and not leaves(s.orelse):
            return replaced(body, i, branch(test, s.orelse, s.body))
        if not s.orelse and leaves(s.body) and leaves(body[i + 1 :]):
            return [*body[:i], branch(test, body[i + 1 :]), *s.body]
    return None


def negation(test: ast.expr, place: Place) -> ast.expr | None:
    """The opposite of a condition, pushed inward as far as types allow."""
    return opposite(test, place.scope)
