"""Values that change places do so at once."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.ranking import binding_order
from skyt.repair.rules.analysis.trees.syntax import (
    count_reads,
    read_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.flow import private
from skyt.repair.rules.registry import Place, block


@block(
    ast.Assign,
    needs="a run of assignments of pure values to locals, one of which is only a way to remember an old "
    "value",
    sound="the run is executed symbolically; one simultaneous assignment gives every variable the same value",
    fires=("a: int >= 1; b: int >= 1", "while b:\n t = a % b\n a = b\n b = t\nreturn a"),
    keeps=("a: int >= 1; b: int >= 1", "t = a\na = b\nb = t\nreturn a - b + t"),
)
def simultaneous(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`t = a % b; a = b; b = t` is `a, b = b, a % b`."""
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not private(name, place):
            continue
        for j in range(i + 1, min(len(body), i + 6)):
            t = body[j]
            if simple_target(t) is None or not isinstance(t, ast.Assign):
                break
            if not count_reads(t.value, name):
                continue
            run = body[i : j + 1]
            if name in place.live_at(body[j]) and simple_target(body[j]) != name:
                break
            new = _together(run, name, place)
            if new is not None:
                return [*body[:i], new, *body[j + 1 :]]
            break
    return None


def _together(run: list[ast.stmt], temporary: str, place: Place) -> ast.stmt | None:
    """One tuple assignment for the run, without the temporary; None where values would be repeated or
    misplaced."""
    if len(run) < 3:
        return None
    values: dict[str, ast.expr] = {}
    for s in run:
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign):
            return None
        if not private(name, place) or not place.scope.effects(s.value).pure:
            return None
        for used in read_names(s.value) & set(values):
            if count_reads(s.value, used) > 1 and not isinstance(values[used], ast.Name | ast.Constant):
                return None
        if name in values and name != temporary:
            return None
        values[name] = substitute(clone(s.value), values)
    if simple_target(run[-1]) != temporary:
        del values[temporary]
    names = sorted(values, key=lambda n: binding_order(place.scope).get(n, 999))
    if len(names) < 2 or sum(place.scope.effects(values[n]).raises for n in names) > 1:
        return None
    if not any(set(names) & read_names(values[n]) - {n} for n in names):
        return None
    target = ast.Tuple(elts=[ast.Name(id=n, ctx=ast.Store()) for n in names], ctx=ast.Store())
    value = ast.Tuple(elts=[values[n] for n in names], ctx=ast.Load())
    return ast.Assign(targets=[target], value=value, lineno=0)
