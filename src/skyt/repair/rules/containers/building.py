"""Lists and strings built in a loop: one form with comprehension, join, extend and +."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import assign, count_reads, load, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.patterns.pieces import made, pieces, value
from skyt.repair.rules.registry import Place, block, statement


def built(s: ast.For) -> tuple[list[ast.expr], ast.stmt] | None:
    """(conditions, the one statement under them) of a loop that does one thing."""
    if s.orelse:
        return None
    conditions: list[ast.expr] = []
    body = s.body
    while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        conditions.append(body[0].test)
        body = body[0].body
    return (conditions, body[0]) if len(body) == 1 else None


def generator_of(s: ast.For, conditions: list[ast.expr]) -> ast.comprehension:
    return ast.comprehension(target=s.target, iter=s.iter, ifs=conditions, is_async=0)


def start_of(body: list[ast.stmt], index: int, name: str) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name in between."""
    for k in range(index - 1, -1, -1):
        if simple_target(body[k]) == name:
            return k
        if any(isinstance(n, ast.Name) and n.id == name for n in walk(body[k])):
            return None
    return None


@block(
    ast.For,
    needs="a new empty list (or string) that only this loop fills; loop variables dead after the loop",
    sound="a comprehension evaluates the same conditions and elements in the same order",
    fires=("xs: list[int]", "r = []\nfor x in xs:\n if x > 1:\n  r.append(x)\nreturn r"),
    keeps=("xs: list[int]", "r = []\nfor x in xs:\n r.append(len(r))\nreturn r"),
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; with strings it is a join."""
    for j, s in enumerate(body):
        if not isinstance(s, ast.For):
            continue
        parts_of = built(s)
        if parts_of is None or stored_names(s.target) & place.live_at(s):
            continue
        conditions, last = parts_of
        found = appended(last) or _added(last, place)
        if found is None:
            continue
        name, item, text_like = found
        start = start_of(body, j, name)
        if (
            start is None
            or not private(name, place)
            or not all(private(n, place) for n in stored_names(s.target))
        ):
            continue
        if not _is_empty(body[start].value, text_like):  # type: ignore[attr-defined]
            continue
        parts = [item, s.iter, *conditions]
        if any(count_reads(p, name) for p in parts) or needs_loop(item, place.scope):
            continue
        generators = [generator_of(s, conditions)]
        whole: ast.expr = ast.ListComp(elt=item, generators=generators)
        if text_like:
            whole = value("''.join(g)", g=ast.GeneratorExp(elt=item, generators=generators))
        new = assign(name, whole)
        return [*body[:start], *body[start + 1 : j], new, *body[j + 1 :]]
    return None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: it is a choice, or a private function of several
    statements is called."""
    if isinstance(node, ast.IfExp):
        return True
    functions = scope.program.by_name
    called = (n.func.id for n in walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    return any(c in functions and not functions[c].public and len(functions[c].node.body) > 1 for c in called)


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
    if found is None or not needs_loop(found[0].elt, place.scope):
        return None
    whole, start = found
    g = whole.generators[0]
    if len(whole.generators) != 1:
        return None
    bound = sorted(stored_names(g.target))
    names = {n: place.context.name(n.rstrip("0123456789_") or "c") for n in bound}
    element = rename(clone(whole.elt), names)
    result = place.context.name("r")
    inner = made("r.append(x)" if isinstance(start, ast.List) else "r = r + x", r=result, x=element)
    for condition in reversed(g.ifs):
        inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
    loop = ast.For(target=rename(clone(g.target), names), iter=g.iter, body=inner, orelse=[], lineno=0)
    last = clone(s)
    last.value = load(result)
    return [assign(result, start), loop, last]


def _collected(whole: ast.expr, scope: Scope) -> tuple[ast.ListComp | ast.GeneratorExp, ast.expr] | None:
    """(comprehension, what an empty one gives) of a list, a join without separator, or a sum of integers."""
    if isinstance(whole, ast.ListComp):
        return whole, ast.List(elts=[], ctx=ast.Load())
    for template, t, start in (("sum(g)", "int", 0), ("''.join(g)", "str", "")):
        p = pieces(template, whole)
        if p is not None and isinstance(p["g"], ast.GeneratorExp):
            made_of = scope.type_of(p["g"].elt)
            if made_of == t or (t == "str" and is_str(made_of)):
                return p["g"], ast.Constant(value=start)
    return None


def appended(s: ast.stmt) -> tuple[str, ast.expr, bool] | None:
    p = pieces("r.append(x)", s)
    return (p["r"].id, p["x"], False) if p is not None and isinstance(p["r"], ast.Name) else None


def _added(s: ast.stmt, place: Place) -> tuple[str, ast.expr, bool] | None:
    p = pieces("r = r + x", s)
    if p is None or not all(is_str(place.scope.type_of(e)) for e in (load(p["r"].id), p["x"])):
        return None
    return p["r"].id, p["x"], True


def _is_empty(value: ast.expr, text_like: bool) -> bool:
    if text_like:
        return isinstance(value, ast.Constant) and value.value == ""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "list" and not value.args
    return isinstance(value, ast.List) and not value.elts
