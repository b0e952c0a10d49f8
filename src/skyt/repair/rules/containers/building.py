"""What a loop makes: lists, strings, dicts, sets and sums as comprehensions; counts, and the largest."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import assign, count_reads, mentions, read_names, stored_names
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.conditions import Condition, Where, boolean, each, integer, last_for, text
from skyt.repair.rules.patterns.flow import local, one_by_one
from skyt.repair.rules.patterns.making import fresh, ranked
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import pieces, value
from skyt.repair.rules.registry import Place, block

# What a loop does with each element, how that starts, what it comes to, and what the element must be.
FILLS: tuple[tuple[str, str, str, list[Condition]], ...] = (
    ("r.append(f)", "[]", "[f for target in e if c]", []),
    ("r.add(f)", "set()", "{f for target in e if c}", []),
    ("r[k] = f", "{}", "{k: f for target in e if c}", []),
    ("r = r + f", "0", "sum(f for target in e if c)", [integer("f")]),
    ("r = f + r", "0", "sum(f for target in e if c)", [integer("f")]),
    ("r = r + f", "''", "''.join(f for target in e if c)", [text("f")]),
)


@block(
    ast.For,
    needs="a new empty list, dict, set or string, or a 0, that only this loop fills or adds to, and does not "
    "read; loop variables dead after the loop; a key and its value in either order",
    sound="a comprehension evaluates the same conditions and elements in the same order; `sum` and `join` "
    "put them together in that order, starting from nothing",
    fires="xs: list[int]\nr = []\nd = {}\ns = set()\nt = 0\nfor x in xs:\n if x > 1:\n  r.append(x)\n"
    "for x in xs:\n d[x] = x * x\nfor x in xs:\n s.add(x % 3)\nfor x in xs:\n t = t + x\n"
    "return [r, d, sorted(s), t]",
    keeps="xs: list[int]\nr = []\nd = {}\nt = 0\nfor x in xs:\n r.append(len(r))\nfor x in xs:\n"
    " d[x] = len(d)\nfor x in xs:\n if x > t:\n  t = t + x\nreturn [r, d, t]",
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; loops may be nested."""
    for j, s in enumerate(body):
        generators, inner = _nested(s)
        bound = stored_names([g.target for g in generators])
        for step, empty, whole, needs in FILLS if generators else ():
            p = pieces(step, inner)
            if p is None or not isinstance(p["r"], ast.Name) or isinstance(p.get("k"), ast.Slice):
                continue
            name, items = p["r"].id, [p[n] for n in "kf" if n in p]
            start = _start_of(body, j, name)
            if start is None or not pieces(f"r = {empty}", body[start]) or bound & {name, *place.live_at(s)}:
                continue
            if not all(place.private(n) for n in (name, *bound)) or count_reads([*items, *generators], name):
                continue
            scope = place.scope
            first_seen, *later = map(scope.effects, items)
            if any(conflict(first_seen, e, scope) for e in later) or any(needs_loop(x, scope) for x in items):
                continue
            if all(n.holds(p, Where(scope)) for n in needs):
                new = value(whole, **p, **dict.fromkeys(("target", "e", "c"), p["r"]))
                made: Any = new.args[0] if isinstance(new, ast.Call) else new
                made.generators = generators
                return [*body[:start], *body[start + 1 : j], assign(name, new), *body[j + 1 :]]
    return None


def _nested(s: ast.stmt) -> tuple[list[ast.comprehension], ast.stmt]:
    """(the parts of a comprehension, the one statement inside) of loops and conditions in each other; no
    parts if one reads the variables of those inside it."""
    generators: list[ast.comprehension] = []
    while isinstance(s, ast.For | ast.If) and len(s.body) == 1 and not s.orelse:
        if isinstance(s, ast.For):
            generators.append(ast.comprehension(target=s.target, iter=s.iter, ifs=[], is_async=0))
        elif generators:
            generators[-1].ifs.append(s.test)
        s = s.body[0]
    later: set[str] = set()
    for g in reversed(generators):
        if mentions(g.ifs, later) or mentions(g.iter, later := later | stored_names(g.target)):
            return [], s
    return generators, s


def _start_of(body: list[ast.stmt], index: int, name: str) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name in between."""
    last = next((k for k in range(index - 1, -1, -1) if mentions(body[k], {name})), None)
    return last if last is not None and simple_target(body[last]) == name else None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: it is a choice, or a private function of several
    statements is called."""
    named = [f for n in read_names(node) if (f := scope.program.by_name.get(n)) is not None]
    return isinstance(node, ast.IfExp) or any(not f.public and len(f.node.body) > 1 for f in named)


rewrite(
    "comprehension-to-loop",
    *(
        (last.format(whole), f"r = {start}\nfor target in e:\n if c: {step}\n{last.format('r')}", needs)
        for last in ("return {}", "targets = {}")
        for step, start, whole, needs in FILLS
    ),
    needs=[
        each(
            "a choice, or a call of a private function of several statements",
            ("f",),
            lambda e, where: needs_loop(e, where.scope),
        )
    ],
    made={"r": fresh("r")},
    because="a comprehension evaluates the same conditions and elements in the same order as a loop",
    fires="xs: list[int]\ndef f(xs):\n return sum(g(x) for x in xs if x)\ndef g(k):\n if k > 2:\n  return k\n"
    " return 7 // k",
    keeps="xs: list[int]\ndef f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1",
)

ROUND = "for target in e:\n if c:\n  targets = f\n  body"

rewrite(
    "loop-over-comprehension",
    ("for targets in (f for target in e if c): body", ROUND),
    (
        "for targets in [f for target in e if c]: body",
        ROUND,
        [one_by_one("[f for target in e if c]", "targets", "body")],
    ),
    because="a generator makes each element when the loop asks for it; elements without effects can be made "
    "then",
    fires="xs: list[int]\nt = 0\nfor y in [x * x for x in xs if x > 1]:\n t = t * 2 + y\n"
    "for y in (x + t for x in xs):\n t = t + y\nreturn t",
    keeps="xs: list[int]\nfor y in [x + len(xs) for x in xs]:\n xs.append(y)\nreturn xs",
)


rewrite(
    "count-to-sum",
    ("len([f for target in e if c])", "sum(1 for target in e if c)"),
    ("sum(b for target in e if c)", "sum(1 for target in e if c and b)", [boolean("b")]),
    needs=[last_for],
    because="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires="xs: list[int]\nreturn len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)",
    keeps="xs: list[int]\nreturn len([1 // x for x in xs]) + sum(x for x in xs)",
)

LARGER = ("a < b", "a <= b", "b > a", "b >= a")  # which says that b is the larger one

rewrite(
    "keep-extreme",
    *((f"if {test}: a = b", "a = max(p, q)", [local("a")]) for test in LARGER),
    *((f"if {test}: b = a", "b = min(p, q)", [local("b")]) for test in LARGER),
    *((f"if {test}: t = b\nelse: t = a", "t = max(p, q)") for test in LARGER),
    *((f"if {test}: t = a\nelse: t = b", "t = min(p, q)") for test in LARGER),
    needs=[integer("a", "b")],
    made={"p": ranked("a", "b", 0), "q": ranked("a", "b", 1)},
    because="the larger of two integers is what is left after replacing the smaller by the larger",
    fires="n: int; m: int\nif n < m:\n n = m\nif n > 7:\n k = 7\nelse:\n k = n\nreturn [n, k]",
    keeps="n: float; m: float\nif n < m:\n n = m\nreturn n",
)
