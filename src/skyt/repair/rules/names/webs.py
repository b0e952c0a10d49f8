"""Values that change places do so at once."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.ranking import binding_order
from skyt.repair.rules.analysis.trees.syntax import count_reads, substitute
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.patterns.conditions import Condition, Where
from skyt.repair.rules.patterns.flow import own, unseen
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found


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
