"""Bounds of integers: intervals from the contract, from the program's invariants, and from conditions on the
path."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.syntax import FLIPPED, int_value, opposite
from skyt.repair.rules.analysis.trees import same, walk
from skyt.repair.rules.analysis.types import is_int

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.functions import FunctionInfo
    from skyt.repair.rules.analysis.program import Program
    from skyt.repair.rules.analysis.scope import Scope

Interval = tuple[int | None, int | None]
EVERYTHING: Interval = (None, None)
LIMITS: dict[type[ast.cmpop] | None, Callable[[int], Interval]] = {
    ast.Eq: lambda k: (k, k),
    ast.Lt: lambda k: (None, k - 1),
    ast.LtE: lambda k: (None, k),
    ast.Gt: lambda k: (k + 1, None),
    ast.GtE: lambda k: (k, None),
}


def meet(a: Interval, b: Interval) -> Interval:
    low = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    high = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return low, high


def interval(node: ast.expr, scope: Scope) -> Interval:
    """An interval that surely holds the value of an integer expression."""
    form = _by_form(node, scope)
    return _by_path(node, scope.known, form) if scope.known else form


def _by_form(node: ast.expr, scope: Scope) -> Interval:
    value = int_value(node)
    if value is not None:
        return value, value
    match node:
        case ast.Name(id=name):
            return scope.bounds_of(name)
        case ast.Call(func=ast.Name(id="len"), args=[container]):
            return int(scope.nonempty(container)), None
        case ast.Call(func=ast.Name(id="abs")):
            return 0, None
        case ast.Call(func=ast.Name(id="max"), args=[_, _, *_] as args, keywords=[]):
            lows = [low for a in args if (low := interval(a, scope)[0]) is not None]
            return max(lows, default=None), None
        case ast.BinOp():
            return _arithmetic(node, scope)
    return EVERYTHING


def _arithmetic(node: ast.BinOp, scope: Scope) -> Interval:
    (a, b), (c, d) = interval(node.left, scope), interval(node.right, scope)
    match node.op:
        case ast.Add():
            return _plus(a, c), _plus(b, d)
        case ast.Sub():
            return _plus(a, _minus(d)), _plus(b, _minus(c))
        case ast.Mult() if a is not None and c is not None and a >= 0 and c >= 0:
            return a * c, b * d if b is not None and d is not None else None
        case ast.Mult():
            square = same(node.left, node.right) and not any(isinstance(n, ast.Call) for n in walk(node))
            return (0, None) if square else EVERYTHING
        case ast.FloorDiv() if c is not None and c > 0:
            low = None if a is None else a // c if a < 0 else 0 if d is None else a // d
            return low, b // c if b is not None and b >= 0 else None
        case ast.Mod() if c is not None and c >= 0:  # the divisor is positive or the operation raises
            return 0, d - 1 if d is not None and c > 0 else None
        case ast.Pow() if a is not None and c is not None and a >= 0 and c >= 0:
            return min(a, 1), None
    return EVERYTHING


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None) -> int | None:
    return None if a is None else -a


def _by_path(node: ast.expr, known: Sequence[ast.expr], found: Interval) -> Interval:
    unequal: set[int] = set()
    for condition in known:
        op, value = _limit(condition, node) or (None, 0)
        if op is ast.NotEq:
            unequal.add(value)
        elif op in LIMITS:
            found = meet(found, LIMITS[op](value))
    low, high = found
    while low is not None and low in unequal:
        low += 1
    return low, high


def _limit(condition: ast.expr, node: ast.expr) -> tuple[type[ast.cmpop], int] | None:
    """(operator, constant) when the condition compares exactly this expression with an integer constant."""
    match condition:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare() as inner):
            limit = _limit(inner, node)
            against = opposite(limit[0]) if limit is not None else None
            return (against, limit[1]) if limit is not None and against is not None else None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if (value := int_value(right)) is not None:
                return (type(op), value) if same(left, node) else None
            if (value := int_value(left)) is not None:
                return (FLIPPED.get(type(op), type(op)), value) if same(right, node) else None
    return None


def nonnegative_variables(info: FunctionInfo, program: Program) -> frozenset[str]:
    """Integer variables that are never negative: the greatest set in which every assignment keeps the
    promise."""
    from skyt.repair.rules.analysis.scope import Scope

    lows = {name: p.min for p, name in zip(info.parameters, info.value_arguments, strict=False)}
    candidates = {
        name
        for name, values in info.assigned.items()
        if None not in values and is_int(info.env.get(name)) and name not in info.captured
        if name not in info.arguments or ((low := lows.get(name)) is not None and low >= 0)
    }
    while True:
        info.nonnegative = frozenset(candidates)
        scope = Scope(program, info)
        bad = {n for n in candidates if not all(v and _keeps(v, scope) for v in info.assigned[n])}
        if not bad:
            return info.nonnegative
        candidates -= bad


def _keeps(value: ast.expr, scope: Scope) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="range"), args=[_, _, step]) if (int_value(step) or 0) <= 0:
            return False
        case ast.Call(func=ast.Name(id="range"), args=[_]):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[first, *_]):
            value = first
    low = interval(value, scope)[0]
    return low is not None and low >= 0
