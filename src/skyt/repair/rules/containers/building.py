"""What a loop makes: lists, strings, dicts, sets and sums as comprehensions; counts, and the largest."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import assign, count_reads, mentions, stored_names
from skyt.repair.rules.analysis.trees import walk
from skyt.repair.rules.analysis.types import is_int, is_str
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.conditions import Condition, boolean, each, integer, last_for, text
from skyt.repair.rules.patterns.flow import local, one_by_one
from skyt.repair.rules.patterns.making import fresh, ranked
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import pieces, value
from skyt.repair.rules.registry import Place, block

Generators = list[ast.comprehension]
Filled = tuple[str, list[ast.expr], str, ast.expr]


def start_of(body: list[ast.stmt], index: int, name: str) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name in between."""
    for k in range(index - 1, -1, -1):
        if simple_target(body[k]) == name:
            return k
        if mentions(body[k], {name}):
            return None
    return None


@block(
    ast.For,
    needs="a new empty list, dict, set or string, or a 0, that only this loop fills or adds to, and does not "
    "read; loop variables dead after the loop; a key and its value in either order",
    sound="a comprehension evaluates the same conditions and elements in the same order; `sum` and `join` "
    "put them together in that order, starting from nothing",
    fires=(
        "xs: list[int]",
        "r = []\nd = {}\ns = set()\nt = 0\nfor x in xs:\n if x > 1:\n  r.append(x)\nfor x in xs:\n"
        " d[x] = x * x\nfor x in xs:\n s.add(x % 3)\nfor x in xs:\n t = t + x\nreturn [r, d, sorted(s), t]",
    ),
    keeps=(
        "xs: list[int]",
        "r = []\nd = {}\nt = 0\nfor x in xs:\n r.append(len(r))\nfor x in xs:\n d[x] = len(d)\n"
        "for x in xs:\n if x > t:\n  t = t + x\nreturn [r, d, t]",
    ),
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; loops may be nested."""
    for j, s in enumerate(body):
        found = _nested(s) if isinstance(s, ast.For) else None
        filled = _filled(found[1], found[0], place.scope) if found is not None else None
        if found is None or filled is None:
            continue
        (generators, _), (name, items, empty, whole) = found, filled
        bound, start = {n for g in generators for n in stored_names(g.target)}, start_of(body, j, name)
        if start is None or not pieces(f"r = {empty}", body[start]) or bound & {name, *place.live_at(s)}:
            continue
        if not all(place.private(n) for n in (name, *bound)) or count_reads([*items, *generators], name):
            continue
        first_seen, *later = (place.scope.effects(x) for x in items)
        if any(conflict(first_seen, e, place.scope) for e in later):
            continue
        if not any(needs_loop(x, place.scope) for x in items):
            return [*body[:start], *body[start + 1 : j], assign(name, whole), *body[j + 1 :]]
    return None


def _nested(s: ast.For) -> tuple[Generators, ast.stmt] | None:
    """(generators, the one statement inside) of loops and conditions in each other, if each only reads the
    variables of those around it."""
    generators: Generators = []
    body: list[ast.stmt] = [s]
    while len(body) == 1 and isinstance(body[0], ast.For | ast.If) and not body[0].orelse:
        head = body[0]
        if isinstance(head, ast.For):
            generators.append(ast.comprehension(target=head.target, iter=head.iter, ifs=[], is_async=0))
        else:
            generators[-1].ifs.append(head.test)
        body = head.body
    later = {n for g in generators for n in stored_names(g.target)}
    for k, g in enumerate(generators):
        if k and mentions(g.iter, later):  # the first is evaluated outside
            return None
        later -= stored_names(g.target)
        if mentions(g.ifs, later):
            return None
    return (generators, body[0]) if len(body) == 1 else None


FILLS = (  # what a loop does with each element, how that starts, and what it comes to
    ("r.append(x)", "[]", "[x for y in r]"),
    ("r.add(x)", "set()", "{x for y in r}"),
    ("r[k] = x", "{}", "{k: x for y in r}"),
    ("r = r + x", "0", "sum(x for y in r)"),
    ("r = x + r", "0", "sum(x for y in r)"),
    ("r = r + x", "''", "''.join(x for y in r)"),
)
SUMS = {"0": is_int, "''": is_str}


def _filled(s: ast.stmt, generators: Generators, scope: Scope) -> Filled | None:
    """(what a loop fills, what it puts in, how that starts, what it comes to)."""
    for step, empty, whole in FILLS:
        p = pieces(step, s)
        if p is None or not isinstance(p["r"], ast.Name) or isinstance(p.get("k"), ast.Slice):
            continue
        if empty in SUMS and not all(SUMS[empty](scope.type_of(p[n])) for n in ("r", "x")):
            continue
        made = value(whole, **p, y=p["r"])
        comprehension: Any = made.args[0] if isinstance(made, ast.Call) else made
        comprehension.generators = generators
        return p["r"].id, [p[n] for n in ("k", "x") if n in p], empty, made
    return None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: it is a choice, or a private function of several
    statements is called."""
    if isinstance(node, ast.IfExp):
        return True
    functions = scope.program.by_name
    called = (n.func.id for n in walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    return any(c in functions and not functions[c].public and len(functions[c].node.body) > 1 for c in called)


def better_in_loop(name: str) -> Condition:
    return each(
        "a choice, or a call of a private function of several statements",
        (name,),
        lambda e, where: needs_loop(e, where.scope),
    )


MADE = {  # what a comprehension comes to: how it starts, and what each element does
    "[f for target in e if c]": ("[]", "r.append(f)"),
    "sum(f for target in e if c)": ("0", "r = r + f"),
    "''.join(f for target in e if c)": ("''", "r = r + f"),
}
TYPED = {"[]": [], "0": [integer("f")], "''": [text("f")]}

rewrite(
    "comprehension-to-loop",
    *(
        (
            last.format(whole),
            f"r = {start}\nfor target in e:\n if c: {step}\n{last.format('r')}",
            TYPED[start],
        )
        for last in ("return {}", "targets = {}")
        for whole, (start, step) in MADE.items()
    ),
    needs=[better_in_loop("f")],
    made={"r": fresh("r")},
    because="a comprehension evaluates the same conditions and elements in the same order as a loop",
    fires=(
        "xs: list[int]",
        "def f(xs):\n return sum(g(x) for x in xs if x)\ndef g(k):\n if k > 2:\n  return k\n return 7 // k",
    ),
    keeps=("xs: list[int]", "def f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1"),
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
    fires=(
        "xs: list[int]",
        "t = 0\nfor y in [x * x for x in xs if x > 1]:\n t = t * 2 + y\n"
        "for y in (x + t for x in xs):\n t = t + y\nreturn t",
    ),
    keeps=("xs: list[int]", "for y in [x + len(xs) for x in xs]:\n xs.append(y)\nreturn xs"),
)


rewrite(
    "count-to-sum",
    ("len([f for target in e if c])", "sum(1 for target in e if c)"),
    ("sum(b for target in e if c)", "sum(1 for target in e if c and b)", [boolean("b")]),
    needs=[last_for],
    because="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires=("xs: list[int]", "return len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)"),
    keeps=("xs: list[int]", "return len([1 // x for x in xs]) + sum(x for x in xs)"),
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
    fires=("n: int; m: int", "if n < m:\n n = m\nif n > 7:\n k = 7\nelse:\n k = n\nreturn [n, k]"),
    keeps=("n: float; m: float", "if n < m:\n n = m\nreturn n"),
)
