"""Dicts, sets and lists that a loop fills: comprehensions, one append at a time, no list in between."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import assign, count_reads, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.containers.building import built, generator_of, needs_loop, start_of
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import first
from skyt.repair.rules.registry import Place, block, statement


@block(
    ast.For,
    needs="a new empty dict or set that only this loop fills, and does not read; loop variables dead after "
    "the loop; key and value in either order",
    sound="a comprehension evaluates the same conditions, keys and values in the same rounds",
    fires=(
        "xs: list[int]",
        "d = {}\ns = set()\nfor x in xs:\n if x > 1:\n  d[x] = x * x\nfor x in xs:\n s.add(x % 3)\n"
        "return [d, sorted(s)]",
    ),
    keeps=("xs: list[int]", "d = {}\nfor x in xs:\n d[x] = len(d)\nreturn d"),
)
def loop_to_dict(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`d = {}; for x in e: if c: d[k] = v` is `d = {k: v for x in e if c}`; `add` fills a set."""
    for j, s in enumerate(body):
        parts = built(s) if isinstance(s, ast.For) else None
        if parts is None or not isinstance(s, ast.For) or stored_names(s.target) & place.live_at(s):
            continue
        conditions, last = parts
        found = _filled(last)
        start = start_of(body, j, found[0]) if found is not None else None
        if found is None or start is None:
            continue
        name, items, empty = found
        if not all(private(n, place) for n in (name, *stored_names(s.target))):
            continue
        if first(body[start].value, empty, "dict()" if empty == "{}" else empty) is None:  # type: ignore[attr-defined]
            continue
        if count_reads([*items, s.iter, *conditions], name) or any(needs_loop(x, place.scope) for x in items):
            continue
        first_seen, *second_seen = (place.scope.effects(x) for x in items)
        if any(conflict(first_seen, e, place.scope) for e in second_seen):
            continue
        generators = [generator_of(s, conditions)]
        whole: ast.expr = ast.SetComp(elt=items[0], generators=generators)
        if len(items) == 2:
            whole = ast.DictComp(key=items[0], value=items[1], generators=generators)
        return [*body[:start], *body[start + 1 : j], assign(name, whole), *body[j + 1 :]]
    return None


def _filled(s: ast.stmt) -> tuple[str, list[ast.expr], str] | None:
    """(d, [k, v], how d starts) of `d[k] = v`, and (s, [x], …) of `s.add(x)`."""
    p = first(s, "d[k] = v", "d.add(x)")
    if p is None or not isinstance(p["d"], ast.Name) or isinstance(p.get("k"), ast.Slice):
        return None
    return (p["d"].id, [p["k"], p["v"]], "{}") if "k" in p else (p["d"].id, [p["x"]], "set()")


@statement(
    ast.For,
    needs="a comprehension as what the loop goes through; for a list: the body changes nothing that the "
    "comprehension reads, and what it has done cannot be seen where the comprehension raises",
    sound="a generator makes each element when the loop asks for it; elements without effects can be made "
    "then",
    fires=(
        "xs: list[int]",
        "t = 0\nfor y in [x * x for x in xs if x > 1]:\n t = t * 2 + y\n"
        "for y in (x + t for x in xs):\n t = t + y\nreturn t",
    ),
    keeps=("xs: list[int]", "for y in [x + len(xs) for x in xs]:\n xs.append(y)\nreturn xs"),
)
def loop_over_comprehension(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`for x in [f(y) for y in e if c]: …` is `for y in e: if c: x = f(y); …`."""
    scope = place.scope
    if not (isinstance(s, ast.For) and isinstance(s.iter, ast.ListComp | ast.GeneratorExp)):
        return None
    made = s.iter
    g = made.generators[0]
    if len(made.generators) != 1:
        return None
    if isinstance(made, ast.ListComp) and not _lazily(made, s, scope):
        return None
    if stored_names(s.target) & place.live_at(s):
        return None
    bound = sorted(stored_names(g.target))
    names = {n: place.context.name(n.rstrip("0123456789_") or "c") for n in bound}
    element = ast.Assign(targets=[clone(s.target)], value=rename(clone(made.elt), names), lineno=0)
    inner: list[ast.stmt] = [element, *(clone(x) for x in s.body)]
    for condition in reversed(g.ifs):
        inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
    new = clone(s)
    new.target, new.iter, new.body = rename(clone(g.target), names), g.iter, inner
    return [new]


def _lazily(made: ast.ListComp, s: ast.For, scope: Scope) -> bool:
    """Whether elements can be made one by one, between the rounds of the body."""
    seen, done = scope.effects(made), Effects(writes=stored_names(s.target))
    done.include(scope.effects(s.body))
    if not seen.pure or disturbs(done, seen, scope):
        return False
    return not seen.raises or not conflict(seen, done, scope)
