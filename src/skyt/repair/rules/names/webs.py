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


def putting(into: str, **values: str) -> Made:
    """An expression with values in the place of variables that it reads, long ones once at most."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        new = {found[variable].id: found[value] for variable, value in values.items()}  # type: ignore[union-attr]
        for name, value in new.items():
            if count_reads(found[into], name) > 1 and not isinstance(value, ast.Name | ast.Constant):
                return None
        return substitute(clone(found[into]), new)  # type: ignore[type-var,arg-type,return-value]

    words = " and ".join(f"`{value}` for `{variable}`" for variable, value in values.items())
    return Made(f"`{into}` with {words}", compute)


rewrite(
    "simultaneous",
    ("t = e\nx = f\ny = t", "x, y = f, e", [bound_first("x", "y")]),
    ("t = e\nx = f\ny = t", "y, x = e, f", [bound_first("y", "x")]),
    ("t = e\nx = f\ny = g", "x, y = f, h", [bound_first("x", "y")]),
    ("t = e\nx = f\ny = g", "y, x = h, f", [bound_first("y", "x")]),
    needs=[own("t"), unseen("x"), unseen("y")],
    made={"h": putting("g", t="e", x="f")},
    because="one simultaneous assignment gives every variable the same value",
    fires=("a: int >= 1; b: int >= 1", "while b:\n t = a % b\n a = b\n b = t\nreturn a"),
    keeps=("a: int >= 1; b: int >= 1", "t = a\na = b\nb = t\nreturn a - b + t"),
)
