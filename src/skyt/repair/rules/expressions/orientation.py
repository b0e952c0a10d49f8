"""Orientation: of two ways to ask a question, the one that normal forms prefer."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.expressions.logic import opposite
from skyt.repair.rules.patterns.conditions import Where, boolean, leaving, no_quantifier, running_on
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found


def negative(test: object) -> bool:
    """Whether a condition is the one of each pair of opposites that normal forms avoid."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return True
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.Or)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if isinstance(test.ops[0], ast.Lt) and int_value(test.left) is not None:
            return True
        return isinstance(test.ops[0], ast.NotEq | ast.NotIn | ast.IsNot | ast.LtE | ast.GtE | ast.Gt)
    return False


def preferred(c: str) -> Made:
    """The opposite of a condition, where it is the one of the two that normal forms prefer."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        if not negative(found[c]):
            return None
        test = opposite(found[c], where.scope)  # type: ignore[arg-type]
        return None if negative(test) else test

    return Made(f"the opposite of `{c}`, if that is the preferred one of the two", compute, like=f"not {c}")


rewrite(
    "orient-branches",
    ("if c: body\nelse: other", "if d: other\nelse: body", [running_on("body", "other")]),
    ("if c: body\nrest", "if d: rest\nbody", [leaving("body", "rest")]),
    made={"d": preferred("c")},
    because="swapping two branches under the negated condition changes nothing; behind a branch that always "
    "leaves, `else` and the code after it are the same place",
    fires=("n: int", "if n != 1:\n m = 2\nelse:\n m = 3\nif n != m:\n return 2\nreturn n"),
    keeps=("n: int", "if n == 1:\n m = 2\nelse:\n m = 3\nif n == m:\n return 2\nreturn n"),
)
rewrite(
    "return-truth",
    ("if c: return True\nreturn False", "return bool(c)"),
    ("if c: return False\nreturn True", "return not c"),
    ("if c: return False\nreturn r", "return not c and r", [no_quantifier("r")]),
    ("if c: return True\nreturn r", "return c or r", [boolean("c"), no_quantifier("r")]),
    ("if c: return v\nreturn False", "return c and v", [boolean("c", "v"), no_quantifier("v")]),
    ("if c: return v\nreturn True", "return not c or v", [boolean("c", "v"), no_quantifier("v")]),
    because="True or False by a condition is its truth, and with another value what `and` and `or` give",
    fires=("n: int; m: int", "if n > 3:\n return m > 4\nreturn False"),
    keeps=("s: str; m: int", "if s:\n return m > 4\nreturn False"),
)
