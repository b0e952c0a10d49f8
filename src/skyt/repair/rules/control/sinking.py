"""Sinking: a value that is made before a choice, and used once on each way, is made where it is used."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import count_reads, leaves, substitute
from skyt.repair.rules.analysis.trees.trees import clone, size
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.names.inline import fits
from skyt.repair.rules.registry import Place, block

LARGEST = 120


@block(
    ast.Assign,
    needs="one assignment of a pure value; conditions behind it that do not read it, have no effects and "
    "cannot raise; one use on each way through them, in the first statement there",
    sound="the value is made once either way, and nothing that could be noticed happens in between",
    fires=("n: int; m: int", "t = m // n\nif n < m:\n return [t]\nif m == 3:\n return -t\nreturn t + 1"),
    keeps=("n: int; m: int", "t = m // n\nif n < m:\n return 0\nif m == 3:\n return -t\nreturn t + 1"),
)
def sink_to_uses(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`t = e; if c: return f(t)` `return g(t)` is `if c: return f(e)` `return g(e)`."""
    info = place.scope.info
    if info is None:
        return None
    for i, s in enumerate(body[:-1]):
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or not isinstance(body[i + 1], ast.If):
            continue
        if not private(name, place) or name in info.arguments or count_reads(s, name):
            continue
        census, rest = place.context.census(info.node), body[i + 1 :]
        uses, scope = count_reads(rest, name), place.before(i)
        if census.stores[name] != 1 or census.reads[name] != uses or uses < 2:
            continue
        if size(s.value) * uses > LARGEST or not scope.effects(s.value).pure:
            continue
        sunk = _sunk(rest, name, s.value, Scope(scope.program, scope.info))
        if sunk is not None:
            return [*body[:i], *sunk]
    return None


def _sunk(rest: list[ast.stmt], name: str, value: ast.expr, scope: Scope) -> list[ast.stmt] | None:
    """A block in which the value stands where the name was read, if every way through it allows that."""
    uses = count_reads(rest, name)
    if not uses:
        return rest if scope.effects(value).total else None
    first, later = rest[0], rest[1:]
    if uses == 1 and count_reads(first, name) and fits(first, name, value, scope):
        return [substitute(clone(first), {name: value}), *later]
    if not isinstance(first, ast.If) or count_reads(first.test, name) or not scope.effects(first.test).total:
        return None
    if first.orelse:
        if count_reads(later, name):
            return None
        other = _sunk(first.orelse, name, value, scope)
    else:
        other = _sunk(later, name, value, scope) if leaves(first.body) else None
    then = _sunk(first.body, name, value, scope)
    if then is None or other is None:
        return None
    if first.orelse:
        return [ast.If(test=first.test, body=then, orelse=other), *later]
    return [ast.If(test=first.test, body=then, orelse=[]), *other]
