"""Sorting and reversing in place as values; methods of sets as operators."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import assign, load, read_names
from skyt.repair.rules.analysis.trees.trees import walk
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.control.loops import backwards
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.conditions import integer, of_kind, small
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import Place, statement


@statement(
    ast.Expr,
    needs="a list that the function owns",
    sound="nobody else holds the list, so a new list in its place cannot be told apart",
    fires=("xs: list[int]", "r = list(xs)\nr.sort()\nr.reverse()\nreturn r"),
    keeps=("xs: list[int]", "xs.sort()\nreturn xs"),
)
def change_in_place(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`x.sort()` is `x = sorted(x)`, `x.reverse()` is `x = x[::-1]`."""
    made = s.value if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) else None
    if made is None or not isinstance(made.func, ast.Attribute) or made.args:
        return None
    x = made.func.value
    if not isinstance(x, ast.Name) or x.id not in place.scope.owned or not private(x.id, place):
        return None
    if kind(place.scope.type_of(x)) != "list" or _gone_through(x.id, s, place):
        return None
    if made.func.attr == "reverse" and not made.keywords:
        return [assign(x.id, backwards(load(x.id)))]
    if made.func.attr == "sort" and not read_names(made.keywords):
        value = ast.Call(func=load("sorted"), args=[load(x.id)], keywords=made.keywords)
        return [assign(x.id, value)]
    return None


def _gone_through(name: str, s: ast.stmt, place: Place) -> bool:
    """Whether a statement stands in a loop over this list, which goes on with the old one."""
    info = place.info
    loops = [n for n in walk(info.node) if isinstance(n, ast.For)]
    return any(name in read_names(n.iter) and any(x is s for x in walk(n.body)) for n in loops)


rewrite(
    "expand-divmod",
    ("divmod(a, b)", "(a // b, a % b)"),
    needs=[integer("a", "b"), small("a", "b")],
    because="`divmod` of two integers is their quotient and their remainder",
    fires=("n: int; m: int", "q, r = divmod(n, m)\nreturn q + r"),
    keeps=("x: float; y: float", "q, r = divmod(x, y)\nreturn q + r"),
)
rewrite(
    "set-operator",
    ("a.intersection(b)", "a & b"),
    ("a.union(b)", "a | b"),
    ("a.difference(b)", "a - b"),
    ("a.symmetric_difference(b)", "a ^ b"),
    needs=[of_kind("set", "a", "b")],
    because="the method of a set, given a set, is its operator",
    fires=("s: str; t: str", "return sorted(set(s).intersection(set(t)))"),
    keeps=("s: str; t: str", "return sorted(set(s).intersection(t))"),
)
