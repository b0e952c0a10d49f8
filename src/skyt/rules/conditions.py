"""Conditions: one form for comparisons, negations, emptiness and what the path or the domain already decides."""

from __future__ import annotations

import ast

from skyt.rules.effects import conflict
from skyt.rules.registry import expression
from skyt.rules.scope import Scope
from skyt.rules.syntax import (
    walk,
    OPPOSITE,
    ORDER_OPPOSITE,
    call,
    clone,
    compare,
    int_value,
    is_false,
    is_true,
    load,
    negate,
    number,
    same,
)
from skyt.rules.types import SIZED, comparable, is_int, is_str, kind, ordered

ORDERED = "operands of type int or str"


def opposite(node: ast.expr, scope: Scope) -> ast.expr:
    """`not node` pushed inward: exact opposites, De Morgan, and total orders."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return clone(node.operand)
    if isinstance(node, ast.BoolOp):
        op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.BoolOp(op=op, values=[opposite(v, scope) for v in node.values])
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
        new = less_than(node, scope, False) or strict_integers(node, scope, False)
        if not isinstance(new, ast.Compare):
            return node
        node = new
    return node


@expression(
    ast.UnaryOp,
    needs="for `<` and its kin: operands of type int or str",
    sound="De Morgan's laws; exact opposites among comparisons; a total order without NaN",
)
def push_negation(node: ast.UnaryOp, scope: Scope, boolean: bool) -> ast.expr | None:
    if not isinstance(node.op, ast.Not):
        return None
    inner = node.operand
    if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
        if boolean or scope.type_of(inner.operand) == "bool":
            return inner.operand
        return None
    new = opposite(inner, scope)
    return None if same(new, node) else new


@expression(
    ast.Compare,
    needs=ORDERED + "; operands that can be evaluated in either order",
    sound="`a > b` and `b < a` are the same comparison on built-in types",
)
def less_than(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Gt | ast.GtE):
        return None
    left, right = node.left, node.comparators[0]
    if not ordered(scope.type_of(left), scope.type_of(right)) or not commute(left, right, scope):
        return None
    return compare(right, ast.Lt if isinstance(node.ops[0], ast.Gt) else ast.LtE, left)


def commute(left: ast.expr, right: ast.expr, scope: Scope) -> bool:
    """Whether two operands can be evaluated in either order."""
    return same(left, right) or not conflict(scope.effects(left), scope.effects(right), scope)


@expression(ast.Compare, needs="operands of type int", sound="between integers there is nothing")
def strict_integers(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """`n <= 1` is `n < 2`; `a < b + 1` is `a <= b`."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Lt | ast.LtE):
        return None
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if not (is_int(scope.type_of(left)) and is_int(scope.type_of(right))):
        return None
    if isinstance(op, ast.LtE):
        if (value := int_value(right)) is not None:
            return compare(left, ast.Lt, number(value + 1))
        if (value := int_value(left)) is not None:
            return compare(number(value - 1), ast.Lt, right)
        if (base := _plus_one(left)) is not None:
            return compare(base, ast.Lt, right)
        if (base := _minus_one(right)) is not None:
            return compare(left, ast.Lt, base)
    elif int_value(left) is None and int_value(right) is None:
        if (base := _plus_one(right)) is not None:
            return compare(left, ast.LtE, base)
        if (base := _minus_one(left)) is not None:
            return compare(base, ast.LtE, right)
    return None


def _plus_one(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and int_value(node.right) == 1:
        return node.left
    return None


def _minus_one(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and int_value(node.right) == 1:
        return node.left
    return None


@expression(
    ast.Compare,
    needs="operands whose equality is symmetric (built-in types) and that can be evaluated in either order",
    sound="equality of built-in values is symmetric",
)
def equality_order(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """The operand with the simpler shape comes first; constants come last."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return None
    left, right = node.left, node.comparators[0]
    if rank(left, scope) <= rank(right, scope):
        return None
    if not comparable(scope.type_of(left), scope.type_of(right)) or not commute(left, right, scope):
        return None
    return compare(right, type(node.ops[0]), left)


SHAPES = ("Call", "Subscript", "Attribute", "BinOp", "Name")


def rank(node: ast.expr, scope: Scope) -> tuple[object, ...]:
    """An order of expressions that does not depend on how variables are called."""
    if isinstance(node, ast.Constant) or int_value(node) is not None:
        return (9, 0, ast.dump(node))
    shape = type(node).__name__
    place = SHAPES.index(shape) if shape in SHAPES else len(SHAPES)
    return (place, -sum(1 for _ in walk(node)), masked(node, scope))


def masked(node: ast.expr, scope: Scope) -> str:
    """The text of an expression with its variables replaced by the order in which they are bound."""
    order = binding_order(scope)
    parts: list[str] = []
    for n in walk(node):
        if isinstance(n, ast.Name):
            parts.append(f"{order[n.id]:03d}" if n.id in order else n.id)
        elif isinstance(n, ast.Constant):
            parts.append(repr(n.value))
        elif isinstance(n, ast.Attribute):
            parts.append("." + (n.attr if n.attr in scope.program.facts.public else ""))
        elif not isinstance(n, ast.expr_context):
            parts.append(type(n).__name__)
    return " ".join(parts)


def binding_order(scope: Scope) -> dict[str, int]:
    """Parameters first, then variables in the order of their first assignment."""
    if scope.info is None:
        return {}
    names = [*scope.info.arguments, *scope.info.assigned]
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


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
        return isinstance(node.func, ast.Name) and node.func.id in {"set", "list", "dict"} and not node.args
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
    ast.UnaryOp,
    needs="a value of type int",
    sound="an int is false exactly when it is 0",
)
def falsity_of_integer(node: ast.UnaryOp, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node.op, ast.Not) and is_int(scope.type_of(node.operand)):
        subject = _length_truth(node.operand, scope)
        if subject is not None:
            return ast.UnaryOp(op=ast.Not(), operand=subject)
        return compare(node.operand, ast.Eq, number(0))
    return None


@expression(
    ast.Call,
    ast.Compare,
    needs="a place where only truth counts, or a value of type bool",
    sound="`bool(x)`, `x is True`, `x == True` of a boolean are the boolean",
)
def plain_boolean(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1:
            if boolean or scope.type_of(node.args[0]) == "bool":
                return node.args[0]
        return None
    assert isinstance(node, ast.Compare)
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
    if len(values) > 1 and boolean and (is_false(values[-1]) if conjunction else is_true(values[-1])):
        if all(scope.effects(v).total for v in values[:-1]):
            return values[-1]
    return values[0] if len(values) == 1 else ast.BoolOp(op=node.op, values=values)


def _is_unit(value: ast.expr, conjunction: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is conjunction


@expression(
    ast.Compare,
    ast.Name,
    ast.UnaryOp,
    needs="the condition, or its opposite, holds on every path here; or bounds from the contract's domain decide it",
    sound="nothing it reads has changed since it was decided; in-domain values lie within the bounds",
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
    if isinstance(node, ast.UnaryOp):
        return ast.Constant(value=verdict)
    return ast.Constant(value=verdict)


def _by_bounds(node: ast.Compare, scope: Scope) -> bool | None:
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if not (is_int(scope.type_of(left)) and is_int(scope.type_of(right))):
        return None
    (a, b), (c, d) = scope.interval(left), scope.interval(right)
    if isinstance(op, ast.GtE | ast.Gt):
        a, b, c, d = c, d, a, b
        op = ast.LtE() if isinstance(op, ast.GtE) else ast.Lt()
    if isinstance(op, ast.Lt):
        if b is not None and c is not None and b < c:
            return True
        return False if a is not None and d is not None and a >= d else None
    if isinstance(op, ast.LtE):
        if b is not None and c is not None and b <= c:
            return True
        return False if a is not None and d is not None and a > d else None
    apart = (b is not None and c is not None and b < c) or (a is not None and d is not None and a > d)
    if isinstance(op, ast.Eq | ast.NotEq):
        if apart:
            return isinstance(op, ast.NotEq)
        if a is not None and a == b == c == d:
            return isinstance(op, ast.Eq)
    return None


@expression(
    ast.Compare,
    needs="bounds from the contract's domain or from the path: only one integer is left",
    sound="an integer between k and k is k",
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
    ast.Compare,
    needs=ORDERED + ", known to be different here",
    sound="between different values `<=` is `<`",
)
def strict_when_different(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.LtE):
        return None
    left, right = node.left, node.comparators[0]
    if not ordered(scope.type_of(left), scope.type_of(right)):
        return None
    different = [compare(left, ast.NotEq, right), compare(right, ast.NotEq, left)]
    if any(same(c, d) for c in scope.known for d in different):
        return compare(left, ast.Lt, right)
    return None


@expression(
    ast.Call,
    needs="the parameter's type from the contract",
    sound="in-domain arguments have the contract's types (an int is never a bool there)",
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


@expression(
    ast.Compare,
    needs="a value of a known built-in type",
    sound="a value whose type is not NoneType is not None",
)
def known_not_none(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        return None
    right = node.comparators[0]
    if not (isinstance(right, ast.Constant) and right.value is None):
        return None
    t = kind(scope.type_of(node.left))
    if t in {"", "none"} or not scope.effects(node.left).total:
        return None
    return ast.Constant(value=isinstance(node.ops[0], ast.IsNot | ast.NotEq))


@expression(
    ast.Compare,
    needs="operands of type int, pure",
    sound="`a < b < c` is `a < b and b < c` when b is a pure expression",
)
def split_chain(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    if len(node.ops) == 1 or not all(scope.effects(c).total for c in node.comparators[:-1]):
        return None
    values: list[ast.expr] = []
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        values.append(compare(clone(left), type(op), clone(right)))
        left = right
    return ast.BoolOp(op=ast.And(), values=values)


__all__ = ["binding_order", "commute", "load", "masked", "opposite", "rank"]
