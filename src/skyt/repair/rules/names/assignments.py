"""Assignments: split, expanded and dropped, so that only what carries information is left; values that change
places do so at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import permutations

from skyt.repair.rules.analysis.ranking import binding_order
from skyt.repair.rules.analysis.syntax import count_reads, substitute
from skyt.repair.rules.analysis.trees import clone
from skyt.repair.rules.patterns.conditions import Condition, Where, immutable, of_kind
from skyt.repair.rules.patterns.flow import local, own, settled, unseen
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found


def simple_target(s: ast.stmt) -> str | None:
    """The name that `name = value` assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


rewrite(
    "split-chained",
    ("x = y = e", "x = e\ny = e"),
    ("x = y = z = e", "x = e\ny = e\nz = e"),
    needs=[of_kind("int bool str none", "e")],
    because="every variable gets the same value, left to right, and evaluating it again gives it again",
    fires=("n: int", "a = b = 0\nreturn a + b + n"),
    keeps=("n: int", "a = b = []\na.append(n)\nreturn b"),
)


def _splits(count: int) -> Iterator[tuple[str, str]]:
    """An assignment of this many values at once, and one after the other in every order."""
    parts = [(f"target_{name}", name) for name in "abcd"[:count]]
    before = ", ".join(t for t, _ in parts) + " = " + ", ".join(v for _, v in parts)
    for ordered in permutations(parts):
        yield before, "\n".join(f"{t} = {v}" for t, v in ordered)


rewrite(
    "split-tuple",
    *(form for count in (2, 3, 4) for form in _splits(count)),
    needs=[unseen("target")],
    because="where no part reads what an earlier one stored, all values are the same as before any store, "
    "and a local that is stored earlier cannot be seen",
    fires=("n: int", "a, b = 0, n\nreturn a - b"),
    keeps=("a: int; b: int", "a, b = b, a\nreturn a - b"),
)
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
rewrite(
    "expand-augmented",
    *((f"target {op}= e", f"target = target {op} e") for op in ARITHMETIC),
    needs=[immutable("target"), settled("target", "e")],
    because="on immutable values `x += e` is `x = x + e`",
    fires=("n: int", "n += 1\nreturn n"),
    keeps=("n: any", "n += 1\nreturn n"),
)
rewrite(
    "extend-in-place",
    ("x += [e]", "x.append(e)"),
    ("x += e", "x.extend(e)"),
    needs=[of_kind("list", "x"), local("x")],
    because="on a list `x += e` is `x.extend(e)`",
    fires=("n: int", "x = [n]\nx += [n, 1]\nx += [n]\nreturn x"),
    keeps=("x: any", "x += [1]\nreturn x"),
)


def bound_first(x: str, y: str) -> Condition:
    """Of two variables the one that is bound first in the function."""

    def holds(found: Found, where: Where) -> bool:
        order = binding_order(where.scope)
        first, second = (order.get(found[name].id, len(order)) for name in (x, y))  # type: ignore[union-attr]
        return first < second

    return Condition(f"`{x}` is bound before `{y}`", holds)


def putting(into: str, once: tuple[str, str], plain: tuple[str, str]) -> Made:
    """An expression that reads a variable, once if its value is long, with the value in its place; and with
    the value of another variable, if it reads that too and the value is short."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        new: dict[str, ast.expr] = {}
        for (variable, value), needed in ((once, 1), (plain, 0)):
            name, piece = found[variable].id, found[value]  # type: ignore[union-attr]
            count, short = count_reads(found[into], name), isinstance(piece, ast.Name | ast.Constant)
            if count < needed or (count > needed and not short):
                return None
            new[name] = piece  # type: ignore[assignment]
        return substitute(clone(found[into]), new)  # type: ignore[type-var,return-value]

    words = " and ".join(f"`{value}` for `{variable}`" for variable, value in (once, plain))
    return Made(f"`{into}` with {words}", compute)


rewrite(
    "simultaneous",
    ("t = e\nx = f\ny = t", "x, y = f, e", [bound_first("x", "y")]),
    ("t = e\nx = f\ny = t", "y, x = e, f", [bound_first("y", "x")]),
    ("t = e\nx = f\ny = g", "x, y = f, h", [bound_first("x", "y")]),
    ("t = e\nx = f\ny = g", "y, x = h, f", [bound_first("y", "x")]),
    needs=[own("t"), unseen("x"), unseen("y")],
    made={"h": putting("g", once=("t", "e"), plain=("x", "f"))},
    because="one simultaneous assignment gives every variable the same value",
    fires=("a: int >= 1; b: int >= 1", "while b:\n t = a % b\n a = b\n b = t\nreturn a"),
    keeps=("a: int >= 1; b: int >= 1", "t = a\na = b\nb = t\nreturn a - b + t"),
)
