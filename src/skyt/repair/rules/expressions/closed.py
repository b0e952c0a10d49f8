"""Terms of sums that are known to be 0."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import int_value, number, substitute
from skyt.repair.rules.analysis.trees import clone
from skyt.repair.rules.patterns.conditions import Where
from skyt.repair.rules.patterns.conditions import number as constant
from skyt.repair.rules.patterns.making import Made, constant_value
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found

LONGEST = 64  # terms tried before a sum is left alone


def first_term(e: str, x: str, c: str, start: str) -> Made:
    """The first number, from a start on, for which a term is not known to be 0, or to be left out."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        begin = int_value(found[start]) if start in found else 0  # type: ignore[arg-type]
        begin = begin or 0
        terms = range(begin, begin + LONGEST)
        later = next((k for k in terms if not idle(found, where, number(k))), begin)
        return number(later) if later > begin else None

    def idle(found: Found, where: Where, term: ast.expr) -> bool:
        at = {found[x].id: term}  # type: ignore[union-attr]
        if c in found:
            chosen = constant_value(substitute(clone(found[c]), at))  # type: ignore[type-var,arg-type]
            if chosen is not None and not chosen:
                return True
            if chosen is None and not where.scope.effects(found[c]).total:
                return False
        return constant_value(substitute(clone(found[e]), at)) == 0  # type: ignore[type-var,arg-type]

    return Made(f"the first `{x}` for which `{e}` is not known to be 0, or to be left out", compute)


rewrite(
    "skip-idle-terms",
    ("sum(e for x in range(n))", "sum(e for x in range(k, n))"),
    ("sum(e for x in range(n) if c)", "sum(e for x in range(k, n) if c)"),
    ("sum(e for x in range(a, n))", "sum(e for x in range(k, n))", [constant("a")]),
    ("sum(e for x in range(a, n) if c)", "sum(e for x in range(k, n) if c)", [constant("a")]),
    made={"k": first_term("e", "x", "c", "a")},
    because="leaving out a term that is 0 does not change a sum",
    fires=("n: int", "return sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)"),
    keeps=("n: int", "return sum(x * x + n for x in range(n) if 7 // (x - n) < 3)"),
)
