"""Indices: counters kept by hand, and indices inside comprehensions, as in loops."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    call,
    count_reads,
    int_value,
    load,
    mentions,
    own_breaks,
    stored_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.containers.building import start_of
from skyt.repair.rules.containers.items import Comprehension, results, used_up
from skyt.repair.rules.control.counting import step_of
from skyt.repair.rules.control.loops import Lookup, elements_of
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, block, expression

USED_UP = (
    "a comprehension that is used up at once; a plain name of a str, or of a list that it does not change"
)


@block(
    ast.For,
    needs="an int that is 0 before the loop, grows by 1 at the end of each round, is not assigned elsewhere "
    "in it, and is dead after it; no `continue`",
    sound="such a variable is the number of the round",
    fires=("xs: list[int]", "i = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n i = i + 1\nreturn r"),
    keeps=(
        "xs: list[int]",
        "i = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n  continue\n i = i + 1\nreturn r",
    ),
)
def counter_by_hand(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`i = 0; for x in e: …; i = i + 1` is `for i, x in enumerate(e): …`."""
    scope = place.scope
    for j, s in enumerate(body):
        if not isinstance(s, ast.For) or len(s.body) < 2 or s.orelse or own_breaks(s.body, (ast.Continue,)):
            continue
        if scope.builtin(load("enumerate")) != "enumerate":
            continue
        for at in range(len(s.body) - 1, -1, -1):
            step = step_of(s.body[at], scope)
            if step is None or step[1] != 1 or not _only_counts(step[0], s, at, place):
                continue
            start = start_of(body, j, step[0])
            first = body[start] if start is not None else None
            if start is None or not isinstance(first, ast.Assign) or int_value(first.value) != 0:
                continue
            new, name = clone(s), place.context.name(step[0].rstrip("0123456789_") or "i")
            pair: list[ast.expr] = [ast.Name(id=name, ctx=ast.Store()), new.target]
            new.target, new.iter = ast.Tuple(elts=pair, ctx=ast.Store()), call("enumerate", new.iter)
            rest = [x for k, x in enumerate(new.body) if k != at]
            new.body = [substitute(x, {step[0]: load(name)}) for x in rest]
            return [*body[:start], *body[start + 1 : j], new, *body[j + 1 :]]
    return None


def _only_counts(name: str, s: ast.For, at: int, place: Place) -> bool:
    """Whether nothing but the step at this index changes a variable in a loop, or reads it after that."""
    others = [x for k, x in enumerate(s.body) if k != at]
    if mentions([s.iter, s.target, *s.body[at + 1 :]], {name}) or name in place.live_at(s):
        return False
    late = [n for n in walk(s.body) if isinstance(n, ast.GeneratorExp) and mentions(n, {name})]
    return private(name, place) and not late and not any(name in stored_names(x) for x in others)


@expression(
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Call,
    needs=USED_UP + "; an index used only to read the element",
    sound="the elements come in the order of their indices",
    fires=("xs: list[int]; k: int >= 0", "return sum(xs[i] * xs[i] for i in range(k, len(xs)))"),
    keeps=("xs: list[int]; k: int", "return [xs[i] for i in range(k, len(xs))]"),
)
def element_in_comprehension(node: Comprehension | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[… s[i] … for i in range(len(s))]` is `[… x … for x in s]`."""
    made = used_up(node, scope)
    if made is None:
        return None
    for j, g in enumerate(made.generators):
        if not (isinstance(g.target, ast.Name) and isinstance(g.iter, ast.Call)):
            continue
        found = elements_of(g.iter, scope)
        if found is None or not _steady(made, found[0], scope) or not _distinct(made):
            continue
        source, whole = found
        inside = [*g.ifs, *made.generators[j + 1 :], *results(made)]
        lookup = ast.Subscript(value=source, slice=load(g.target.id), ctx=ast.Load())
        uses = sum(isinstance(n, ast.Subscript) and same(n, lookup) for n in walk(inside))
        if not uses or uses != count_reads(inside, g.target.id):
            continue
        name = scope.fresh(made)
        new = Lookup(lookup, name).visit(clone(made))
        new.generators[j].target, new.generators[j].iter = ast.Name(id=name, ctx=ast.Store()), whole
        return _instead(node, new)
    return None


def _steady(made: Comprehension, source: ast.Name, scope: Scope) -> bool:
    """Whether a comprehension neither changes the str or list that it goes through nor hides its name."""
    t, seen = scope.type_of(source), scope.effects(made)
    if source.id in {n for g in made.generators for n in stored_names(g.target)} or not seen.pure:
        return False
    return is_str(t) or (kind(t) == "list" and not disturbs(seen, Effects(heap_reads={source.id}), scope))


def _distinct(made: Comprehension) -> bool:
    """Whether every variable of a comprehension is bound once in it, and none inside it again."""
    bound = [n.id for n in walk(made) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    return len(bound) == len(set(bound)) and not any(isinstance(n, ast.Lambda) for n in walk(made))


def _instead(node: Comprehension | ast.Call, new: Comprehension) -> ast.expr:
    return ast.Call(func=node.func, args=[new], keywords=[]) if isinstance(node, ast.Call) else new
