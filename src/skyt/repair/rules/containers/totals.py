"""Totals: counting, summing, and keeping the largest, in one form each."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    assign,
    call,
    count_reads,
    int_value,
    load,
    mentions,
    stored_names,
)
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.containers.building import built, generator_of, needs_loop, start_of
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.expressions.comparisons import rank
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.registry import Place, block, expression


@expression(
    ast.Call,
    needs="for `len`: elements made without effects that cannot raise; for `sum`: conditions of type bool",
    sound="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires=("xs: list[int]", "def f(xs):\n return len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)"),
    keeps=("xs: list[int]", "def f(xs):\n return len([1 // x for x in xs]) + sum(x for x in xs)"),
)
def count_to_sum(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`len([x for x in e if c])` and `sum(c for x in e)` are `sum(1 for x in e if c)`."""
    name = scope.builtin(node.func)
    if name not in {"len", "sum"} or len(node.args) != 1 or node.keywords:
        return None
    only = node.args[0]
    if not scope.builtin(load("sum")):
        return None
    if name == "len" and isinstance(only, ast.ListComp):
        if not scope.effects(only.elt).total:
            return None
        one = ast.GeneratorExp(elt=ast.Constant(value=1), generators=only.generators)
        return call("sum", one)
    if name == "sum" and isinstance(only, ast.GeneratorExp) and scope.type_of(only.elt) == "bool":
        if isinstance(only.elt, ast.Constant):
            return None
        last = only.generators[-1]
        kept = ast.comprehension(target=last.target, iter=last.iter, ifs=[*last.ifs, only.elt], is_async=0)
        return call(
            "sum", ast.GeneratorExp(elt=ast.Constant(value=1), generators=[*only.generators[:-1], kept])
        )
    return None


@block(
    ast.For,
    needs="a local that starts at 0 and to which only this loop adds; integers; loop variables dead after "
    "the loop",
    sound="`sum` adds the same integers in the same order, starting from 0",
    fires=("xs: list[int]", "def f(xs):\n t = 0\n for x in xs:\n  if x > 1:\n   t = t + x\n return t"),
    keeps=("xs: list[int]", "def f(xs):\n t = 0\n for x in xs:\n  if x > t:\n   t = t + x\n return t"),
)
def loop_to_sum(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`t = 0; for x in e: if c: t = t + f` is `t = sum(f for x in e if c)`; loops may be nested."""
    for j, s in enumerate(body):
        if not isinstance(s, ast.For):
            continue
        found = _nested(s)
        if found is None:
            continue
        generators, last = found
        name, bound = simple_target(last), {n for g in generators for n in stored_names(g.target)}
        if bound & place.live_at(s):
            continue
        if name is None or not isinstance(last, ast.Assign) or not scope_has_sum(place.scope):
            continue
        item = _added(last.value, name, place.scope)
        start = start_of(body, j, name)
        if item is None or start is None:
            continue
        if not all(private(n, place) for n in (name, *bound)) or name in bound:
            continue
        first = body[start]
        if not isinstance(first, ast.Assign) or int_value(first.value) != 0:
            continue
        if count_reads([item, *generators], name) or needs_loop(item, place.scope):
            continue
        total = call("sum", ast.GeneratorExp(elt=item, generators=generators))
        new = ast.Assign(targets=first.targets, value=total, lineno=0)
        return [*body[:start], *body[start + 1 : j], new, *body[j + 1 :]]
    return None


def _nested(s: ast.For) -> tuple[list[ast.comprehension], ast.stmt] | None:
    """(generators, the one statement inside) of loops and conditions in each other, if each only reads the
    variables of those around it."""
    generators: list[ast.comprehension] = []
    last: ast.stmt = s
    while isinstance(last, ast.For):
        found = built(last)
        if found is None:
            return None
        generators.append(generator_of(last, found[0]))
        last = found[1]
    later = {n for g in generators for n in stored_names(g.target)}
    for k, g in enumerate(generators):
        if k and mentions(g.iter, later):  # the first is evaluated outside
            return None
        later -= stored_names(g.target)
        if mentions(g.ifs, later):
            return None
    return generators, last


def scope_has_sum(scope: Scope) -> bool:
    return scope.builtin(load("sum")) == "sum"


def _added(value: ast.expr, name: str, scope: Scope) -> ast.expr | None:
    """What is added to the total, if all of it are integers."""
    if not (
        isinstance(value, ast.BinOp) and is_int(scope.type_of(value)) and is_int(scope.type_of(load(name)))
    ):
        return None
    if isinstance(value.op, ast.Add):
        for one, other in ((value.left, value.right), (value.right, value.left)):
            if same(one, load(name)) and is_int(scope.type_of(other)):
                return other
        if isinstance(value.left, ast.BinOp):  # (a + t) + b, as linear forms are written
            inner = _added(value.left, name, scope)
            if inner is not None and is_int(scope.type_of(value.right)):
                return ast.BinOp(left=inner, op=ast.Add(), right=value.right)
    return None


@block(
    ast.If,
    needs="integers; both sides pure",
    sound="the larger of two integers is what is left after replacing the smaller by the larger",
    fires=(
        "n: int; m: int",
        "def f(n, m):\n if n < m:\n  n = m\n if n > 7:\n  k = 7\n else:\n  k = n\n return [n, k]",
    ),
    keeps=("n: float; m: float", "def f(n, m):\n if n < m:\n  n = m\n return n"),
)
def keep_extreme(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if b < a: b = a` is `b = max(b, a)`; with an `else` that keeps the other one too."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.If) and len(s.body) == 1 and len(s.orelse) <= 1):
            continue
        name = simple_target(s.body[0])
        if name is None or not private(name, place):
            continue
        then = s.body[0].value  # type: ignore[attr-defined]
        other: ast.expr = load(name)
        if s.orelse:
            if simple_target(s.orelse[0]) != name:
                continue
            other = s.orelse[0].value  # type: ignore[attr-defined]
        scope = place.before(i)
        if not (is_int(scope.type_of(then)) and is_int(scope.type_of(other))):
            continue
        kind = _extreme(s.test, then, other)
        if kind is None or scope.builtin(load(kind)) != kind:
            continue
        seen = [scope.effects(then), scope.effects(other)]
        if not all(e.pure for e in seen) or all(e.raises for e in seen):
            continue
        value = call(kind, *sorted((clone(then), clone(other)), key=lambda a: rank(a, scope)))
        return replaced(body, i, assign(name, value))
    return None


def _extreme(test: ast.expr, then: ast.expr, other: ast.expr) -> str | None:
    """`max` or `min` if choosing `then` under the test, else `other`, is choosing that one."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    left, op, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(op, ast.Gt | ast.GtE):
        left, right = right, left
    elif not isinstance(op, ast.Lt | ast.LtE):
        return None
    if same(left, other) and same(right, then):
        return "max"
    return "min" if same(left, then) and same(right, other) else None


@expression(
    ast.Call,
    needs="integers, at most one of which may raise",
    sound="the largest of some integers does not depend on their order",
    fires=("n: int; m: int", "def f(n, m):\n return max(m, n)"),
    keeps=("n: float; m: float", "def f(n, m):\n return max(m, n)"),
)
def order_extremes(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`max(b, a)` is `max(a, b)`."""
    if scope.builtin(node.func) not in {"max", "min"} or len(node.args) < 2 or node.keywords:
        return None
    if not all(is_int(scope.type_of(a)) for a in node.args):
        return None
    seen = [scope.effects(a) for a in node.args]
    if not all(e.pure for e in seen) or sum(e.raises for e in seen) > 1:
        return None
    ordered = sorted(node.args, key=lambda a: rank(a, scope))
    if all(a is b for a, b in zip(ordered, node.args, strict=True)):
        return None
    return ast.Call(func=node.func, args=ordered, keywords=[])
