"""Orientation: of two ways to ask a question, the one that normal forms prefer."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import int_value, leaves
from skyt.repair.rules.control.branches import ALWAYS, branch, replaced
from skyt.repair.rules.expressions.comparisons import opposite
from skyt.repair.rules.patterns.conditions import boolean, no_quantifier
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import Place, block


def negative(test: ast.expr) -> bool:
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


@block(
    ast.If,
    needs=ALWAYS,
    sound="swapping two branches under the negated condition changes nothing",
    fires=("n: int", "if n != 1:\n n = 2\nelse:\n n = 3\nreturn n"),
    keeps=("n: int", "if n == 1:\n n = 2\nelse:\n n = 3\nreturn n"),
)
def orient_branches(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not isinstance(s, ast.If) or not negative(s.test):
            continue
        test = opposite(s.test, place.scope)
        if negative(test):
            continue
        if s.orelse and not leaves(s.body) and not leaves(s.orelse):
            return replaced(body, i, branch(test, s.orelse, s.body))
        if not s.orelse and leaves(s.body) and leaves(body[i + 1 :]):
            return [*body[:i], branch(test, body[i + 1 :]), *s.body]
    return None


rewrite(
    "return-condition",
    ("if c: return True\nreturn False", "return bool(c)"),
    ("if c: return False\nreturn True", "return not c"),
    because="returning True or False by a condition is returning its truth",
    fires=("n: int", "if n > 3:\n return True\nreturn False"),
    keeps=("n: int", "if n > 3:\n return 1\nreturn 0"),
)
rewrite(
    "return-rest",
    ("if c: return False\nreturn r", "return not c and r"),
    needs=[no_quantifier("r")],
    because="False where the condition holds, the rest where it does not, is what `and` gives",
    fires=("n: int; m: int", "if n > 3:\n return False\nreturn m > 4"),
    keeps=("n: int; m: int", "if n > 3:\n return 0\nreturn m > 4"),
)
rewrite(
    "return-either",
    ("if c: return True\nreturn r", "return c or r"),
    needs=[boolean("c"), no_quantifier("r")],
    because="True where the condition holds, the rest where it does not, is what `or` gives",
    fires=("n: int; m: int", "if n > 3:\n return True\nreturn m > 4"),
    keeps=("s: str; m: int", "if s:\n return True\nreturn m > 4"),
)
rewrite(
    "return-connective",
    ("if c: return v\nreturn False", "return c and v"),
    ("if c: return v\nreturn True", "return not c or v"),
    needs=[boolean("c", "v"), no_quantifier("v")],
    because="of two booleans, both and either are what `and` and `or` give",
    fires=("n: int; m: int", "if n > 3:\n return m > 4\nreturn False"),
    keeps=("s: str; m: int", "if s:\n return m > 4\nreturn False"),
)
