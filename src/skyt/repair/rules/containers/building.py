"""Lists, strings, dicts, sets and sums that a loop makes: one form with comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyt.repair.rules.analysis.effects.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    assign,
    count_reads,
    load,
    mentions,
    rename,
    stored_names,
)
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_int, is_str
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.patterns.pieces import first, made, pieces, value
from skyt.repair.rules.registry import Place, block, statement

Generators = list[ast.comprehension]
Filled = tuple[str, list[ast.expr], str, Callable[[Generators], ast.expr]]


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
        filled = _filled(found[1], place.scope) if found is not None else None
        if found is None or filled is None:
            continue
        (generators, _), (name, items, empty, whole) = found, filled
        bound, start = {n for g in generators for n in stored_names(g.target)}, start_of(body, j, name)
        if start is None or not pieces(f"r = {empty}", body[start]) or bound & {name, *place.live_at(s)}:
            continue
        if not all(private(n, place) for n in (name, *bound)) or count_reads([*items, *generators], name):
            continue
        first_seen, *later = (place.scope.effects(x) for x in items)
        if any(conflict(first_seen, e, place.scope) for e in later):
            continue
        if not any(needs_loop(x, place.scope) for x in items):
            return [*body[:start], *body[start + 1 : j], assign(name, whole(generators)), *body[j + 1 :]]
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


def _filled(s: ast.stmt, scope: Scope) -> Filled | None:
    """(what a loop fills, what it puts in, how that starts, what it comes to)."""
    p = first(s, "r.append(x)", "r.add(x)", "r[k] = x", "r = r + x", "r = x + r")
    if p is None or not isinstance(p["r"], ast.Name) or isinstance(p.get("k"), ast.Slice):
        return None
    name, x = p["r"].id, p["x"]
    if "k" in p:
        return name, [p["k"], x], "{}", lambda g: ast.DictComp(key=p["k"], value=x, generators=g)
    if pieces("r.append(x)", s):
        return name, [x], "[]", lambda g: ast.ListComp(elt=x, generators=g)
    if pieces("r.add(x)", s):
        return name, [x], "set()", lambda g: ast.SetComp(elt=x, generators=g)
    types = [scope.type_of(e) for e in (load(name), x)]
    if all(map(is_int, types)):
        return name, [x], "0", lambda g: value("sum(e)", e=ast.GeneratorExp(elt=x, generators=g))
    if all(map(is_str, types)) and pieces("r = r + x", s):
        return name, [x], "''", lambda g: value("''.join(e)", e=ast.GeneratorExp(elt=x, generators=g))
    return None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: it is a choice, or a private function of several
    statements is called."""
    if isinstance(node, ast.IfExp):
        return True
    functions = scope.program.by_name
    called = (n.func.id for n in walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    return any(c in functions and not functions[c].public and len(functions[c].node.body) > 1 for c in called)


def rounds(
    whole: ast.ListComp | ast.GeneratorExp, place: Place, inside: Callable[[ast.expr], list[ast.stmt]]
) -> ast.For:
    """The loop that a comprehension with one `for` stands for, with what is done with each element."""
    g = whole.generators[0]
    bound = sorted(stored_names(g.target))
    names = {n: place.context.name(n.rstrip("0123456789_") or "c") for n in bound}
    inner = inside(rename(clone(whole.elt), names))
    for condition in reversed(g.ifs):
        inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
    return ast.For(target=rename(clone(g.target), names), iter=g.iter, body=inner, orelse=[], lineno=0)


@statement(
    ast.Return,
    ast.Assign,
    needs="a comprehension as the whole value, whose element is a choice or calls a private function of "
    "several statements",
    sound="a comprehension evaluates the same conditions and elements in the same order as a loop",
    fires=(
        "xs: list[int]",
        "def f(xs):\n return sum(g(x) for x in xs if x)\ndef g(k):\n if k > 2:\n  return k\n return 7 // k",
    ),
    keeps=("xs: list[int]", "def f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1"),
)
def comprehension_to_loop(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`return [helper(x) for x in e]` becomes a loop, in which the helper can be put where it is called."""
    if not isinstance(s, ast.Return | ast.Assign) or s.value is None:
        return None
    found = _collected(s.value, place.scope)
    if found is None or not needs_loop(found[0].elt, place.scope) or len(found[0].generators) != 1:
        return None
    whole, start = found
    result, step = place.context.name("r"), "r.append(x)" if isinstance(start, ast.List) else "r = r + x"
    loop = rounds(whole, place, lambda element: made(step, r=result, x=element))
    last = clone(s)
    last.value = load(result)
    return [assign(result, start), loop, last]


def _collected(whole: ast.expr, scope: Scope) -> tuple[ast.ListComp | ast.GeneratorExp, ast.expr] | None:
    """(comprehension, what an empty one gives) of a list, a join without separator, or a sum of integers."""
    if isinstance(whole, ast.ListComp):
        return whole, ast.List(elts=[], ctx=ast.Load())
    for template, fits, start in (("sum(g)", is_int, 0), ("''.join(g)", is_str, "")):
        p = pieces(template, whole)
        if p is not None and isinstance(p["g"], ast.GeneratorExp) and fits(scope.type_of(p["g"].elt)):
            return p["g"], ast.Constant(value=start)
    return None


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
    if not (isinstance(s, ast.For) and isinstance(s.iter, ast.ListComp | ast.GeneratorExp)):
        return None
    if len(s.iter.generators) != 1 or s.orelse or stored_names(s.target) & place.live_at(s):
        return None
    if isinstance(s.iter, ast.ListComp) and not _lazily(s.iter, s, place.scope):
        return None
    target, body = s.target, s.body
    return [
        rounds(s.iter, place, lambda e: [ast.Assign(targets=[target], value=e, lineno=0), *map(clone, body)])
    ]


def _lazily(made: ast.ListComp, s: ast.For, scope: Scope) -> bool:
    """Whether elements can be made one by one, between the rounds of the body."""
    seen, done = scope.effects(made), Effects(writes=stored_names(s.target))
    done.include(scope.effects(s.body))
    if not seen.pure or disturbs(done, seen, scope):
        return False
    return not seen.raises or not conflict(seen, done, scope)
