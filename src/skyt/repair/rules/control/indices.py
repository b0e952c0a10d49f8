"""Indices: counters kept by hand, and indices inside comprehensions, as in loops."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import (
    call,
    int_value,
    load,
    mentions,
    own_breaks,
    stored_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.containers.building import start_of
from skyt.repair.rules.control.counting import step_of
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, block


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
