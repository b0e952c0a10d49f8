"""Counting loops: one form for loops over numbers."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    count_reads,
    int_value,
    load,
    mentions,
    number,
    own_breaks,
    read_names,
    stored_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import first, made, pieces, value
from skyt.repair.rules.registry import Place, block, statement


@block(
    ast.While,
    needs="an int counter, changed only by the step at the end, dead after the loop; a limit the body "
    "does not change; "
    "no `continue`",
    sound="the counter then takes exactly the values of a range, one a round",
    fires=("n: int >= 0 <= 50", "t = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t"),
    keeps=("n: int >= 0 <= 50", "t = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t + i"),
)
def counting_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`i = a; while i < n: …; i += 1` becomes `for i in range(a, n): …`."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.While) and not s.orelse and len(s.body) > 1):
            continue
        scope = place.before(i)
        found = _counter(s, scope)
        if found is None:
            continue
        name, limit, step, at = found
        inner = [*s.body[:at], *s.body[at + 1 :]]
        written = stored_names(inner)
        if name in place.live_at(s) or own_breaks(s.body, (ast.Continue,)) or name in written:
            continue
        seen, changed = scope.effects(limit), scope.effects(inner)
        if read_names(limit) & (written | {name}) or not seen.total or disturbs(changed, seen, scope):
            continue
        start = pieces("i = a", body[i - 1], i=name) if i else None
        before, a = (body[: i - 1], start["a"]) if start else (body[:i], load(name))
        parts = {"i": name, "a": a, "n": limit, "k": ast.Constant(value=step), "inner": inner}
        ranged = "range(a, n)" if step == 1 else "range(a, n, k)"
        return [*before, *made(f"for i in {ranged}: inner", **parts), *body[i + 1 :]]
    return None


def _counter(s: ast.While, scope: Scope) -> tuple[str, ast.expr, int, int] | None:
    """(counter, exclusive limit, step, index of the stepping statement) of a counting loop."""
    for at in range(len(s.body) - 1, -1, -1):
        stepped = step_of(s.body[at], scope)
        if stepped is not None and not mentions(s.body[at + 1 :], {stepped[0]}):
            limit = _limit(s.test, stepped[0], scope)
            if limit is not None:
                return stepped[0], limit, stepped[1], at
    return None


def step_of(last: ast.stmt, scope: Scope) -> tuple[str, int] | None:
    """(counter, step) of `i = i + step`."""
    p = pieces("i = i + k", last)
    step = int_value(p["k"]) if p is not None else None
    if p is None or step is None or step < 1 or not is_int(scope.type_of(load(p["i"].id))):
        return None
    return p["i"].id, step


def _limit(test: ast.expr, name: str, scope: Scope) -> ast.expr | None:
    """The exclusive limit of `while i < n`, `while i <= n`, `while i + 1 < n`, `while i * i <= n`."""
    p = first(test, "x < n", "x <= n")
    if p is None or not is_int(scope.type_of(p["n"])):
        return None
    x, n, strict = p["x"], p["n"], pieces("x < n", test)
    if (offset := _offset(x, name)) is not None:
        n = value("n - k", n=n, k=number(offset)) if offset else n
        return n if strict else value("n + 1", n=n)  # type: ignore[no-any-return]
    low = scope.interval(n)[0]
    rooted = low is not None and low >= 0 and scope.info is not None and name in scope.info.nonnegative
    if strict or not rooted or not pieces("i * i", x, i=name):
        return None
    return value("math.isqrt(n) + 1", n=n)  # type: ignore[no-any-return]


@statement(
    ast.For,
    needs="a loop variable that is never read",
    sound="only the number of rounds of such a loop matters",
    fires=("n: int >= 0 <= 50", "t = 1\nfor i in range(2, n + 1):\n t = t * 2\nreturn t"),
    keeps=("n: int >= 0 <= 50", "t = 1\nfor i in range(2, n + 1):\n t = t * i\nreturn t"),
)
def anonymous_rounds(s: ast.stmt, place: Place, k: int) -> list[ast.stmt] | None:
    """`for i in range(2, n + 1)` with i unused becomes `for i in range(n - 1)`."""
    from skyt.repair.rules.analysis.values.linear import difference

    p, scope = pieces("for i in range(a, b): body", s), place.scope
    if p is None or count_reads(p["body"], p["i"].id) or p["i"].id in place.live_at(s):
        return None
    if not all(is_int(scope.type_of(x)) and scope.effects(x).total for x in (p["a"], p["b"])):
        return None
    rounds = difference(p["b"], p["a"], scope)
    if rounds is not None:
        return made("for i in range(n): body", n=rounds, **p)
    return None


@statement(
    ast.For,
    needs="an int loop variable that is only used in indices, not assigned, dead after the loop; constants "
    "for the start and for the offsets",
    sound="counting from 1 and looking at i - 1 is counting from 0 and looking at i",
    fires=("xs: list[int]", "t = 1\nfor i in range(1, len(xs)):\n t = 2 * t + xs[i] - xs[i - 1]\nreturn t"),
    keeps=("xs: list[int]", "t = 1\nfor i in range(1, len(xs)):\n t = i * t + xs[i] - xs[i - 1]\nreturn t"),
)
def shift_index(s: ast.stmt, place: Place, k: int) -> list[ast.stmt] | None:
    """`for i in range(1, n): … x[i - 1] … x[i]` is `for i in range(n - 1): … x[i] … x[i + 1]`."""
    p = pieces("for i in range(a, n): body", s)
    start = int_value(p["a"]) if p is not None else None
    if p is None or start is None or start <= 0 or not is_int(place.scope.type_of(p["n"])):
        return None
    name, inner = p["i"].id, p["body"]
    if name in place.live_at(s) or not private(name, place) or name in stored_names(inner):
        return None
    indices = [n.slice for n in walk(inner) if isinstance(n, ast.Subscript)]
    offsets = [o for o in (_offset(n, name) for n in indices) if o is not None]
    by = min(start, -min(offsets, default=0))
    if len(offsets) != count_reads(inner, name) or by <= 0:
        return None
    fresh = place.context.name(name.rstrip("0123456789_") or "i")
    moved = value("i + k", i=fresh, k=number(by))
    parts = {"i": fresh, "a": number(start - by), "n": p["n"], "k": number(by)}
    parts["body"] = [substitute(clone(x), {name: moved}) for x in inner]
    ranged = "range(a, n - k)" if start > by else "range(n - k)"
    return made(f"for i in {ranged}: body", **parts)


def _offset(node: ast.expr, name: str) -> int | None:
    """k of `name + k`."""
    if isinstance(node, ast.Name) and node.id == name:
        return 0
    p = first(node, "i + k", "i - k", i=name)
    k = int_value(p["k"]) if p is not None else None
    return None if k is None else k if pieces("i + k", node) else -k
