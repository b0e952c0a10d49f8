"""Neighbours: pairs of elements a fixed distance apart, by index."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value, load, number, substitute
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import made, pieces, value
from skyt.repair.rules.registry import Place, statement

LATE = (ast.Lambda, ast.FunctionDef)


def _tail(node: ast.expr, scope: Scope) -> tuple[str, int] | None:
    """(x, k) of `x[k:]`, and of x itself with 0, for a str or list under a plain name."""
    p = pieces("x[k:]", node) or {"x": node, "k": number(0)}
    start, t = int_value(p["k"]), scope.type_of(p["x"])
    if not isinstance(p["x"], ast.Name) or start is None or start < 0:
        return None
    return (p["x"].id, start) if is_str(t) or kind(t) == "list" else None


@statement(
    ast.For,
    needs="a str, or a list under a plain name that the body does not change; two variables that are neither "
    "assigned in the body nor read after the loop",
    sound="the shorter of two tails of one sequence ends with it",
    fires=("xs: list[int]", "t = 0\nfor a, b in zip(xs, xs[1:]):\n t = t * 2 + a - b\nreturn t"),
    keeps=(
        "xs: list[int]",
        "t = 0\nfor a, b in zip(xs, xs[1:]):\n if t < 9:\n  xs.append(a)\n t = t + b + 3\nreturn t",
    ),
)
def neighbours_by_index(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`for a, b in zip(x, x[1:])` is `for i in range(len(x) - 1)` with `x[i]` and `x[i + 1]`."""
    scope = place.scope
    p = pieces("for a, b in zip(x, y): body", s)
    tails = [_tail(e, scope) for e in (p["x"], p["y"])] if p is not None else [None]
    if p is None or None in tails or tails[0][0] != tails[1][0]:  # type: ignore[index]
        return None
    (whole, first), (_, second) = tails  # type: ignore[misc]
    names, inner = {p["a"].id, p["b"].id}, p["body"]
    if first == second or min(first, second) != 0 or len(names) != 2 or whole in names:
        return None
    bound = {n.id for n in walk(inner) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    if names & place.live_at(s) or bound & {whole, *names} or any(isinstance(n, LATE) for n in walk(inner)):
        return None
    changed = scope.effects(inner)
    steady = is_str(scope.type_of(load(whole))) or not disturbs(changed, Effects(heap_reads={whole}), scope)
    if not steady or not all(private(n, place) for n in names):
        return None
    index = place.context.name("i")
    at = [value("x[i + k]" if k else "x[i]", x=whole, i=index, k=number(k)) for k in (first, second)]
    parts = {"i": index, "x": whole, "k": number(max(first, second))}
    parts["body"] = [substitute(clone(n), {p["a"].id: at[0], p["b"].id: at[1]}) for n in inner]
    return made("for i in range(len(x) - k): body", **parts)
