"""Truth: one form for emptiness, for integers as conditions, and for boolean connectives."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, compare, int_value, is_false, is_true, number
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.analysis.values.types import SIZED, is_int, is_str, kind
from skyt.repair.rules.registry import expression


@expression(
    ast.Compare,
    needs="a container or str of known type",
    sound="such a value is empty exactly when its length is 0, and exactly then it is false",
)
def emptiness(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """`len(x) == 0`, `x == []`, `len(x) < 1` are `not x`; their opposites are `x`."""
    if len(node.ops) != 1:
        return None
    left, op, right = node.left, node.ops[0], node.comparators[0]
    subject, empty = _length_test(left, op, right)
    if subject is None and isinstance(op, ast.Eq | ast.NotEq) and _is_empty_literal(right):
        wanted = {ast.List: {"list"}, ast.Constant: {"str", "char"}, ast.Dict: {"dict"}, ast.Call: {"set"}}
        if kind(scope.type_of(left)) in wanted.get(type(right), set()):
            subject, empty = left, isinstance(op, ast.Eq)
    if subject is None:
        return None
    t = scope.type_of(subject)
    if not (is_str(t) or kind(t) in SIZED):
        return None
    if empty:
        return ast.UnaryOp(op=ast.Not(), operand=subject)
    return subject if boolean else call("bool", subject)


def _is_empty_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.List):
        return not node.elts
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id == "set"
        return named and not (node.args or node.keywords)
    return isinstance(node, ast.Constant) and node.value == ""


def _length_test(left: ast.expr, op: ast.cmpop, right: ast.expr) -> tuple[ast.expr | None, bool]:
    """(container, True if the test asks for empty) of a comparison of a length with 0 or 1."""
    value, subject = int_value(right), _len_argument(left)
    if subject is not None and value is not None:
        if value == 0 and isinstance(op, ast.Eq | ast.NotEq | ast.Gt | ast.LtE):
            return subject, isinstance(op, ast.Eq | ast.LtE)
        if value == 1 and isinstance(op, ast.Lt | ast.GtE):
            return subject, isinstance(op, ast.Lt)
    value, subject = int_value(left), _len_argument(right)
    if subject is not None and value is not None:
        if value == 0 and isinstance(op, ast.Lt):
            return subject, False
        if value == 1 and isinstance(op, ast.LtE):
            return subject, False
    return None, False


def _len_argument(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return node.args[0] if len(node.args) == 1 else None
    return None


def _length_truth(node: ast.expr, scope: Scope) -> ast.expr | None:
    subject = _len_argument(node)
    if subject is not None and (is_str(scope.type_of(subject)) or kind(scope.type_of(subject)) in SIZED):
        return subject
    return None


@expression(
    ast.Name,
    ast.BinOp,
    ast.Call,
    ast.Subscript,
    ast.Attribute,
    needs="a value of type int in a place where only its truth counts",
    sound="an int is false exactly when it is 0; a length is 0 exactly when its container is false",
)
def truth_of_integer(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if not boolean or not is_int(scope.type_of(node)):
        return None
    subject = _length_truth(node, scope)
    return subject if subject is not None else compare(node, ast.NotEq, number(0))


@expression(
    ast.Call,
    ast.Compare,
    needs="a place where only truth counts, or a value of type bool",
    sound="`bool(x)`, `x is True`, `x == True` of a boolean are the boolean",
)
def plain_boolean(node: ast.Call | ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1):
            return None
        return node.args[0] if boolean or scope.type_of(node.args[0]) == "bool" else None
    if len(node.ops) == 1 and scope.type_of(node.left) == "bool":
        right = node.comparators[0]
        if isinstance(right, ast.Constant) and isinstance(right.value, bool):
            positive = isinstance(node.ops[0], ast.Eq | ast.Is)
            if positive or isinstance(node.ops[0], ast.NotEq | ast.IsNot):
                return node.left if positive == right.value else ast.UnaryOp(op=ast.Not(), operand=node.left)
    return None


@expression(
    ast.BoolOp,
    needs="for dropping what follows a deciding constant: nothing; for nesting: nothing",
    sound="`and` and `or` are associative, True and False are their units and zeros",
)
def flatten_boolean(node: ast.BoolOp, scope: Scope, boolean: bool) -> ast.expr | None:
    conjunction = isinstance(node.op, ast.And)
    values: list[ast.expr] = []
    changed = False
    for i, value in enumerate(node.values):
        last = i == len(node.values) - 1
        if isinstance(value, ast.BoolOp) and isinstance(value.op, type(node.op)):
            values += value.values
            changed = True
        elif _is_unit(value, conjunction) and not (last and not boolean) and len(node.values) > 1:
            changed = True
        elif (is_false(value) if conjunction else is_true(value)) and isinstance(
            getattr(value, "value", None), bool
        ):
            values.append(value)
            changed = changed or not last
            break
        elif (
            boolean
            and any(same(value, v) for v in values)
            and scope.effects(value).pure
            and all(scope.effects(v).pure for v in values)
        ):
            changed = True
        else:
            values.append(value)
    if not changed:
        return None
    if not values:
        return ast.Constant(value=conjunction)
    decided = is_false(values[-1]) if conjunction else is_true(values[-1])
    if len(values) > 1 and boolean and decided and all(scope.effects(v).total for v in values[:-1]):
        return values[-1]
    return values[0] if len(values) == 1 else ast.BoolOp(op=node.op, values=values)


def _is_unit(value: ast.expr, conjunction: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is conjunction
