"""Totals: counting, summing, and keeping the largest, in one form each."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.ranking import rank
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    assign,
    call,
    load,
)
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import first, pieces
from skyt.repair.rules.registry import Place, expression, statement


@expression(
    ast.Call,
    needs="for `len`: elements made without effects that cannot raise; for `sum`: conditions of type bool",
    sound="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires=("xs: list[int]", "return len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)"),
    keeps=("xs: list[int]", "return len([1 // x for x in xs]) + sum(x for x in xs)"),
)
def count_to_sum(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`len([x for x in e if c])` and `sum(c for x in e)` are `sum(1 for x in e if c)`."""
    p = first(node, "len(e)", "sum(e)")
    only = p["e"] if p is not None else None
    if pieces("len(e)", node) and isinstance(only, ast.ListComp) and scope.effects(only.elt).total:
        return call("sum", ast.GeneratorExp(elt=ast.Constant(value=1), generators=only.generators))
    if not isinstance(only, ast.GeneratorExp) or isinstance(only.elt, ast.Constant):
        return None
    if not pieces("sum(e)", node) or scope.type_of(only.elt) != "bool":
        return None
    kept = clone(only)
    kept.generators[-1].ifs.append(only.elt)
    kept.elt = ast.Constant(value=1)
    return call("sum", kept)


@statement(
    ast.If,
    needs="integers; both sides pure",
    sound="the larger of two integers is what is left after replacing the smaller by the larger",
    fires=("n: int; m: int", "if n < m:\n n = m\nif n > 7:\n k = 7\nelse:\n k = n\nreturn [n, k]"),
    keeps=("n: float; m: float", "if n < m:\n n = m\nreturn n"),
)
def keep_extreme(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`if b < a: b = a` is `b = max(b, a)`; with an `else` that keeps the other one too."""
    p = first(s, "if c: t = x", "if c: t = x\nelse: t = y")
    q = first(p["c"], "a < b", "a <= b", "b > a", "b >= a") if p is not None else None
    if p is None or q is None or not private(p["t"].id, place):
        return None
    x, y, scope = p["x"], p.get("y", load(p["t"].id)), place.before(i)
    kept = {(True, False): "max", (False, True): "min"}.get(
        (same(q["a"], y) and same(q["b"], x), same(q["a"], x) and same(q["b"], y))
    )
    if kept is None or not (is_int(scope.type_of(x)) and is_int(scope.type_of(y))):
        return None
    seen = [scope.effects(x), scope.effects(y)]
    if all(e.pure for e in seen) and not all(e.raises for e in seen):
        sides = sorted((clone(x), clone(y)), key=lambda a: rank(a, scope))
        return [assign(p["t"].id, call(kept, *sides))]
    return None
