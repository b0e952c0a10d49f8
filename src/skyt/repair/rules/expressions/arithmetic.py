"""Integer arithmetic: a linear normal form, constants folded, quotients and roots in one way, and sums
without terms that are known to be 0."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.ranking import factor, linear, written
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, number, substitute
from skyt.repair.rules.analysis.trees import clone, same
from skyt.repair.rules.patterns import conditions
from skyt.repair.rules.patterns.conditions import Where, at_least, at_most, integer
from skyt.repair.rules.patterns.making import Made, constant_value
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found
from skyt.repair.rules.registry import expression

LONGEST = 64  # terms tried before a sum is left alone
LINEAR = (ast.Add, ast.Sub, ast.USub)


@expression(
    ast.BinOp,
    ast.UnaryOp,
    needs="operands of type int; terms without effects that can be evaluated in any order",
    sound="integer addition is associative and commutative, multiplication distributes over it, and both are "
    "exact",
    fires="n: int\nreturn 1 + n + 2",
    keeps="n: float\nreturn 1 + n + 2",
)
def linear_form(node: ast.BinOp | ast.UnaryOp, scope: Scope, boolean: bool) -> ast.expr | None:
    """`1 + n + 2` is `n + 3`, `n + n` is `n * 2`: a sum of terms in one order, with its constant last."""
    if int_value(node) is not None or not (isinstance(node.op, LINEAR) or factor(node) is not None):
        return None
    form = linear(node, scope)
    if form is None or not all(scope.effects(a).pure if k else scope.effects(a).total for a, k in form[0]):
        return None
    new = written(form, scope)
    return None if same(new, node) else new


rewrite(
    "one-quotient",
    ("(b - a) // 2 + a", "(a + b) // 2", [integer("a", "b")]),
    ("a + (b - a) // 2", "(a + b) // 2", [integer("a", "b")]),
    ("a - a % k", "a // k * k", [integer("a", "k")]),
    *((f"(a + b % k {op} c) % k", f"(a + b {op} c) % k", [integer("a", "b", "c", "k")]) for op in "+-"),
    because="quotient times divisor and remainder make up an integer, exactly, and a multiple of the divisor "
    "added or taken away changes no remainder",
    fires="n: int; m: int\nreturn [n + (m - n) // 2, n - n % 7, (n + m % 26 - 65) % 26]",
    keeps="n: int; m: int; x: float\nreturn [x + (n - x) // 2, x - x % 7, (n + m % 27 - 65) % 26]",
)
rewrite(
    "integer-root",
    *((f"int({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    *((f"math.floor({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    needs=[at_least(0, "n"), at_most(2**50, "n")],
    because="below 2**52 the double nearest to a square root never rounds past an integer",
    fires="n: int >= 0 <= 1000000\nreturn int(n ** 0.5)",
    keeps="n: int >= 0\nreturn int(n ** 0.5)",
)
rewrite(
    "absolute",
    ("abs(x)", "x", [at_least(0, "x")]),
    ("abs(x)", "-x", [at_most(0, "x")]),
    because="a number that is not negative is its own absolute value, that of the others is their negative",
    fires="n: int >= 0; m: int <= 0\nreturn abs(n) + abs(m)",
    keeps="n: int; m: int\nreturn abs(n) + abs(m)",
)


def _first_term(found: Found, where: Where) -> ast.expr | None:
    name, begin = found["x"].id, int_value(found.get("a", number(0))) or 0  # type: ignore[union-attr,arg-type]
    total = where.scope.effects(found["c"]).total

    def idle(k: int) -> bool:
        parts = (substitute(clone(found[part]), {name: number(k)}) for part in "ce")  # type: ignore[type-var]
        chosen, term = map(constant_value, parts)  # type: ignore[arg-type]
        return (chosen is not None and not chosen) or (term == 0 and (chosen is not None or total))

    first = next((k for k in range(begin, begin + LONGEST) if not idle(k)), begin)
    return number(first) if first > begin else None


rewrite(
    "skip-idle-terms",
    ("sum(e for x in range(n) if c)", "sum(e for x in range(k, n) if c)"),
    ("sum(e for x in range(a, n) if c)", "sum(e for x in range(k, n) if c)", [conditions.number("a")]),
    made={"k": Made("the first `x` for which `e` is not known to be 0, or to be left out", _first_term)},
    because="leaving out a term that is 0 does not change a sum",
    fires="n: int\nreturn sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)",
    keeps="n: int\nreturn sum(x * x + n for x in range(n) if 7 // (x - n) < 3)",
)
