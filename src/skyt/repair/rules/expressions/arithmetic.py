"""Integer arithmetic: a linear normal form, constants folded, midpoints and squares in one way."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.ranking import factor, linear, written
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.trees import same
from skyt.repair.rules.patterns.conditions import at_least, at_most, integer
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression

LINEAR = (ast.Add, ast.Sub, ast.USub)


@expression(
    ast.BinOp,
    ast.UnaryOp,
    needs="operands of type int; terms without effects that can be evaluated in any order",
    sound="integer addition is associative and commutative, multiplication distributes over it, and both are "
    "exact",
    fires=("n: int", "return 1 + n + 2"),
    keeps=("n: float", "return 1 + n + 2"),
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
    ("(b - a) // 2 + a", "(a + b) // 2"),
    ("a + (b - a) // 2", "(a + b) // 2"),
    needs=[integer("a", "b")],
    because="x + y // 2 is (2 * x + y) // 2 for integers, exactly",
    fires=("a: int; b: int", "return a + (b - a) // 2"),
    keeps=("a: float; b: float", "return a + (b - a) // 2"),
)
rewrite(
    "integer-root",
    *((f"int({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    *((f"math.floor({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    needs=[at_least(0, "n"), at_most(2**50, "n")],
    because="below 2**52 the double nearest to a square root never rounds past an integer",
    fires=("n: int >= 0 <= 1000000", "return int(n ** 0.5)"),
    keeps=("n: int >= 0", "return int(n ** 0.5)"),
)
rewrite(
    "absolute",
    ("abs(x)", "x", [at_least(0, "x")]),
    ("abs(x)", "-x", [at_most(0, "x")]),
    because="a number that is not negative is its own absolute value, that of the others is their negative",
    fires=("n: int >= 0; m: int <= 0", "return abs(n) + abs(m)"),
    keeps=("n: int; m: int", "return abs(n) + abs(m)"),
)
rewrite(
    "floor-multiple",
    ("x - x % k", "x // k * k"),
    needs=[integer("x", "k")],
    because="quotient times divisor and remainder make up an integer",
    fires=("n: int", "return n - n % 7"),
    keeps=("x: float", "return x - x % 7"),
)
rewrite(
    "remainder-in-sum",
    ("(a + b % k - c) % k", "(a + b - c) % k"),
    ("(a + b % k + c) % k", "(a + b + c) % k"),
    needs=[integer("a", "b", "c", "k")],
    because="a term may be reduced before the sum is, or not",
    fires=("n: int; m: int", "return (n + m % 26 - 65) % 26"),
    keeps=("n: int; m: int", "return (n + m % 27 - 65) % 26"),
)
