"""Neighbours: pairs of elements a fixed distance apart, by index."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, int_value, load, number, substitute
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, block

LATE = (ast.Lambda, ast.FunctionDef)


def _offset(node: ast.expr, scope: Scope) -> tuple[str, int] | None:
    """(x, k) of `x[k:]`, and of x itself with 0, for a str or list under a plain name."""
    start = 0
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        s = node.slice
        low = int_value(s.lower) if s.lower is not None else None
        if s.upper is not None or s.step is not None or low is None or low < 0:
            return None
        node, start = node.value, low
    if not isinstance(node, ast.Name):
        return None
    t = scope.type_of(node)
    return (node.id, start) if is_str(t) or kind(t) == "list" else None


def _paired(node: ast.expr, target: ast.expr, scope: Scope) -> tuple[str, dict[str, int]] | None:
    """(x, offsets of the two variables) of `for a, b in zip(x, x[1:])` and of `pairwise(x)`."""
    if not (isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts)):
        return None
    names = [e.id for e in target.elts if isinstance(e, ast.Name)]
    if not isinstance(node, ast.Call) or node.keywords or len(names) != 2 or names[0] == names[1]:
        return None
    if scope.builtin(node.func) == "zip" and len(node.args) == 2:
        first, second = (_offset(a, scope) for a in node.args)
    elif (
        ast.unparse(node.func) == "itertools.pairwise"
        and scope.is_module("itertools")
        and len(node.args) == 1
    ):
        first = second = _offset(node.args[0], scope)
        if first is not None:
            second = first[0], first[1] + 1
    else:
        return None
    if first is None or second is None or first[0] != second[0] or first[0] in names:
        return None
    if first[1] == second[1] or min(first[1], second[1]) != 0:
        return None
    return first[0], {names[0]: first[1], names[1]: second[1]}


def _indexed(whole: str, offsets: dict[str, int], index: str) -> tuple[ast.expr, dict[str, ast.expr]]:
    """(range of the index, what stands for each variable)."""
    length = ast.BinOp(left=call("len", load(whole)), op=ast.Sub(), right=number(max(offsets.values())))
    values: dict[str, ast.expr] = {}
    for name, k in offsets.items():
        at: ast.expr = ast.BinOp(left=load(index), op=ast.Add(), right=number(k)) if k else load(index)
        values[name] = ast.Subscript(value=load(whole), slice=at, ctx=ast.Load())
    return call("range", length), values


def _binds(body: list[ast.stmt], names: set[str]) -> bool:
    """Whether one of these names is bound anywhere inside, comprehensions included."""
    inside = (n for n in walk(body) if isinstance(n, ast.Name))
    return any(n.id in names and not isinstance(n.ctx, ast.Load) for n in inside)


def _builtins(scope: Scope) -> bool:
    return scope.builtin(load("range")) == "range" and scope.builtin(load("len")) == "len"


@block(
    ast.For,
    needs="a str, or a list under a plain name that the body does not change; two variables that are neither "
    "assigned in the body nor read after the loop",
    sound="the shorter of two tails of one sequence ends with it",
    fires=(
        "xs: list[int]",
        "def f(xs):\n t = 0\n for a, b in zip(xs, xs[1:]):\n  t = t * 2 + a - b\n return t",
    ),
    keeps=(
        "xs: list[int]",
        (
            "def f(xs):\n t = 0\n for a, b in zip(xs, xs[1:]):\n  if t < 9:\n   xs.append(a)\n"
            "  t = t + b + 3\n return t"
        ),
    ),
)
def neighbours_by_index(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for a, b in zip(x, x[1:])` is `for i in range(len(x) - 1)` with `x[i]` and `x[i + 1]`."""
    scope = place.scope
    for i, s in enumerate(body):
        found = _paired(s.iter, s.target, scope) if isinstance(s, ast.For) else None
        if found is None or not isinstance(s, ast.For) or not _builtins(scope):
            continue
        whole, offsets = found
        if s.orelse or set(offsets) & place.live_at(s) or _binds(s.body, {whole, *offsets}):
            continue
        if any(isinstance(n, LATE) for n in walk(s.body)) or not all(private(n, place) for n in offsets):
            continue
        changed = scope.effects(s.body)
        if not is_str(scope.type_of(load(whole))) and disturbs(changed, Effects(heap_reads={whole}), scope):
            continue
        index = place.context.name("i")
        new = clone(s)
        new.iter, values = _indexed(whole, offsets, index)
        new.target = ast.Name(id=index, ctx=ast.Store())
        new.body = [substitute(x, values) for x in new.body]
        return replaced(body, i, new)
    return None
