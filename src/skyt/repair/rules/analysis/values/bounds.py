"""Bounds of integers: intervals from the contract, from the program's invariants, and from conditions on the
path."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import same, walk
from skyt.repair.rules.analysis.values.types import is_int

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.program import FunctionInfo, Program
    from skyt.repair.rules.analysis.scope import Scope


Interval = tuple[int | None, int | None]


EVERYTHING: Interval = (None, None)


def meet(a: Interval, b: Interval) -> Interval:
    low = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    high = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return low, high


def interval(node: ast.expr, scope: Scope) -> Interval:
    """An interval that surely holds the value of an integer expression."""
    form = _by_form(node, scope)
    return meet(form, _by_path(node, scope.known, form)) if scope.known else form


def _by_form(node: ast.expr, scope: Scope) -> Interval:
    value = int_value(node)
    if value is not None:
        return value, value
    if isinstance(node, ast.Name):
        return scope.bounds_of(node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "len":
            return (1, None) if node.args and scope.nonempty(node.args[0]) else (0, None)
        if node.func.id == "abs":
            return 0, None
        if node.func.id == "max" and len(node.args) > 1 and not node.keywords:
            lows = [interval(a, scope)[0] for a in node.args]
            known = [low for low in lows if low is not None]
            return (max(known) if known else None), None
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, scope)
    return EVERYTHING


def _arithmetic(node: ast.BinOp, scope: Scope) -> Interval:
    (a, b), (c, d) = interval(node.left, scope), interval(node.right, scope)
    if isinstance(node.op, ast.Add):
        return _plus(a, c), _plus(b, d)
    if isinstance(node.op, ast.Sub):
        return _plus(a, _minus(d)), _plus(b, _minus(c))
    if isinstance(node.op, ast.Mult):
        if a is not None and c is not None and a >= 0 and c >= 0:
            return a * c, b * d if b is not None and d is not None else None
        square = same(node.left, node.right) and not any(isinstance(n, ast.Call) for n in walk(node))
        return (0, None) if square else EVERYTHING
    if isinstance(node.op, ast.FloorDiv) and c is not None and c > 0:
        low = a // c if a is not None and a < 0 else a // d if a is not None and d is not None else None
        if a is not None and a >= 0 and low is None:
            low = 0
        return low, b // c if b is not None and b >= 0 else None
    if isinstance(node.op, ast.Mod) and c is not None and c > 0:
        return 0, d - 1 if d is not None else None
    if isinstance(node.op, ast.Mod) and c is not None and c >= 0:
        return 0, None  # the divisor is positive or the operation raises
    if isinstance(node.op, ast.Pow) and a is not None and c is not None and a >= 0 and c >= 0:
        return min(a, 1), None
    return EVERYTHING


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None) -> int | None:
    return None if a is None else -a


def _by_path(node: ast.expr, known: Sequence[ast.expr], start: Interval) -> Interval:
    low, high = start
    unequal: set[int] = set()
    for condition in known:
        unequal |= _excluded(condition, node)
        limit = _limit(condition, node)
        if limit is None:
            continue
        op, value = limit
        if isinstance(op, ast.Eq):
            low, high = meet((low, high), (value, value))
        elif isinstance(op, ast.NotEq):
            unequal.add(value)
        elif isinstance(op, ast.Lt):
            low, high = meet((low, high), (None, value - 1))
        elif isinstance(op, ast.LtE):
            low, high = meet((low, high), (None, value))
        elif isinstance(op, ast.Gt):
            low, high = meet((low, high), (value + 1, None))
        elif isinstance(op, ast.GtE):
            low, high = meet((low, high), (value, None))
    while low is not None and low in unequal:
        low += 1
    return low, high


def _excluded(condition: ast.expr, node: ast.expr) -> set[int]:
    """The integers that `node not in (…)` rules out."""
    if not (isinstance(condition, ast.Compare) and len(condition.ops) == 1):
        return set()
    table = condition.comparators[0]
    if not isinstance(condition.ops[0], ast.NotIn) or not isinstance(table, ast.Tuple | ast.List | ast.Set):
        return set()
    values = {int_value(e) for e in table.elts}
    return {v for v in values if v is not None} if same(condition.left, node) else set()


def _limit(condition: ast.expr, node: ast.expr) -> tuple[ast.cmpop, int] | None:
    """(operator, constant) when the condition compares exactly this expression with an integer constant."""
    negated = False
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        condition, negated = condition.operand, True
    if not (isinstance(condition, ast.Compare) and len(condition.ops) == 1):
        return None
    left, op, right = condition.left, condition.ops[0], condition.comparators[0]
    value = int_value(right)
    if value is None:
        value, left = int_value(left), right
        flipped = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
        op = flipped.get(type(op), type(op))()
    if value is None or not same(left, node):
        return None
    if negated:
        opposite = {ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt}
        opposite |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
        if type(op) not in opposite:
            return None
        op = opposite[type(op)]()
    return op, value


def nonnegative_variables(info: FunctionInfo, program: Program) -> frozenset[str]:
    """Integer variables that are never negative: the greatest set in which every assignment keeps the
    promise."""
    from skyt.repair.rules.analysis.scope import Scope

    candidates = {name for name, values in info.assigned.items() if None not in values}
    candidates = {n for n in candidates if is_int(info.env.get(n)) and n not in info.captured}
    for argument in info.arguments:
        if argument in candidates:
            low = None
            for parameter, name in zip(info.parameters, info.value_arguments, strict=False):
                low = parameter.min if name == argument else low
            if low is None or low < 0:
                candidates.discard(argument)
    while candidates:
        info.nonnegative = frozenset(candidates)
        scope = Scope(program, info)
        bad = {
            name
            for name in candidates
            for value in info.assigned[name]
            if value is not None and not _keeps(value, scope)
        }
        if not bad:
            break
        candidates -= bad
    return frozenset(candidates)


def _keeps(value: ast.expr, scope: Scope) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "range":
        steps = value.args[2] if len(value.args) > 2 else None
        if steps is not None and (int_value(steps) or 0) <= 0:
            return False
        if len(value.args) == 1:
            return True
        value = value.args[0]
    low = interval(value, scope)[0]
    return low is not None and low >= 0
