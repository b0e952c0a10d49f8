"""Terms of sums that are known to be 0."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, int_value, number, substitute
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.patterns.making import constant_value
from skyt.repair.rules.patterns.pieces import first, pieces, value
from skyt.repair.rules.registry import expression

LONGEST = 64  # terms tried before a sum is left alone


@expression(
    ast.Call,
    needs="a sum over a range from a constant on, whose first terms are 0 or left out; conditions that "
    "cannot raise there",
    sound="leaving out a term that is 0 does not change a sum",
    fires=("n: int", "return sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)"),
    keeps=("n: int", "return sum(x * x + n for x in range(n) if 7 // (x - n) < 3)"),
)
def skip_idle_terms(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`sum(x for x in range(n) if x % 3 == 0)` starts at 3."""
    p = pieces("sum(g)", node)
    if p is None or not isinstance(p["g"], ast.GeneratorExp) or len(p["g"].generators) != 1:
        return None
    made, g = p["g"], p["g"].generators[0]
    q = first(g.iter, "range(n)", "range(a, n)")
    begin = int_value(q.get("a", number(0))) if q is not None else None
    if q is None or begin is None or not isinstance(g.target, ast.Name):
        return None
    tried = range(begin, begin + LONGEST)
    start = next((k for k in tried if not _idle(made, g, k, scope)), begin)
    if start == begin:
        return None
    new = clone(made)
    new.generators[0].iter = value("range(a, n)", a=number(start), n=q["n"])
    return call("sum", new)


def _idle(made: ast.GeneratorExp, g: ast.comprehension, term: int, scope: Scope) -> bool:
    """Whether the term for this value of the variable is 0, or is left out."""
    at = {g.target.id: number(term)}  # type: ignore[attr-defined]
    conditions = [constant_value(substitute(clone(c), at)) for c in g.ifs]
    sure = all(v is not None or scope.effects(c).total for v, c in zip(conditions, g.ifs, strict=True))
    left_out = any(v is not None and not v for v in conditions)
    return sure and (left_out or constant_value(substitute(clone(made.elt), at)) == 0)
