"""Branches: one shape for guards, `else` after return, nested conditions, and branches that share code."""

from __future__ import annotations

import ast

from skyt.repair.rules.patterns.conditions import Condition, always, leaving
from skyt.repair.rules.patterns.flow import ends_function, ends_round, running_out
from skyt.repair.rules.patterns.rewriting import Form, rewrite


def branch(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.If:
    return ast.If(test=test, body=body, orelse=orelse or [])


rewrite(
    "drop-final-jump",
    ("continue", "pass", [ends_round]),
    ("return", "pass", [ends_function]),
    ("return None", "pass", [ends_function]),
    because="at the end of a loop body `continue`, and at the end of a function `return None`, are what "
    "happens anyway",
    fires=("xs: list[int]", "for x in xs:\n if x:\n  xs = xs\n continue\nreturn 1"),
    keeps=("xs: list[int]", "t = 0\nfor x in xs:\n if x:\n  continue\n t = x + 1\nreturn t"),
)


def _skipping(jump: str, *needs: Condition) -> list[Form]:
    return [
        (f"if c: {jump}\nrest", "if not c: rest", [*needs]),
        (f"if c:\n body\n {jump}\nrest", "if c: body\nelse: rest", [*needs]),
    ]


rewrite(
    "jump-to-else",
    *_skipping("continue", ends_round),
    *_skipping("return", ends_function, running_out("rest")),
    *_skipping("return None", ends_function, running_out("rest")),
    because="skipping the rest of a loop body (or of a function that returns None) is having the rest in "
    "the other branch",
    fires=("xs: list[int]", "t = 0\nfor x in xs:\n if x < 1:\n  continue\n t = t + x\nreturn t"),
    keeps=("xs: list[int]", "t = 0\nfor x in xs:\n if x < 1:\n  break\n t = t + x\nreturn t"),
)
rewrite(
    "decide-true",
    ("if c: body", "body"),
    ("if c: body\nelse: other", "body"),
    needs=[always(True, "c")],
    because="a condition that is a constant chooses its branch for good",
    fires=("n: int", "if True:\n return n\nreturn 0"),
    keeps=("n: int", "if n:\n return n\nreturn 0"),
)
rewrite(
    "decide-false",
    ("if c: body\nelse: other", "other"),
    ("if c: body", "pass"),
    ("while c: body", "pass"),
    needs=[always(False, "c")],
    because="a condition that is a constant chooses its branch for good",
    fires=("n: int", "if False:\n return 0\nreturn n"),
    keeps=("n: int", "if n:\n return 0\nreturn n"),
)
rewrite(
    "drop-empty-branch",
    ("if c: pass\nelse: other", "if not c: other"),
    ("if c: body\nelse: pass", "if c: body"),
    ("if c: body\nelse: body", "body"),
    ("if c: pass", "pass"),
    because="a branch without statements only evaluates its test",
    fires=("n: int", "if n > 3:\n pass\nelse:\n n = n + 1\nreturn n"),
    keeps=("xs: list[int]", "if xs.pop() > 3:\n pass\nreturn xs"),
)
rewrite(
    "flatten-else",
    ("if c: body\nelse: other", "if c: body\nother"),
    needs=[leaving("body")],
    because="behind a branch that always leaves, `else` and the code after it are the same place",
    fires=("n: int", "if n > 3:\n return 1\nelse:\n return 2"),
    keeps=("n: int", "if n > 3:\n n = 1\nelse:\n n = 2\nreturn n"),
)
rewrite(
    "flatten-then",
    ("if c: body\nelse: other", "if not c: other\nbody"),
    needs=[leaving("other")],
    because="behind a branch that always leaves, `else` and the code after it are the same place",
    fires=("n: int", "if n > 3:\n n = n + 1\nelse:\n return 2\nreturn n"),
    keeps=("n: int", "if n > 3:\n n = 1\nelse:\n n = 2\nreturn n"),
)
rewrite(
    "merge-nested",
    ("if c:\n if d: body", "if c and d: body"),
    because="two nested conditions without `else` hold together exactly when their conjunction does",
    fires=("n: int; m: int", "if n > 3:\n if m > 4:\n  return 1\nreturn 0"),
    keeps=("n: int; m: int", "if n > 3:\n if m > 4:\n  return 1\n return 2\nreturn 0"),
)
rewrite(
    "merge-guards",
    ("if c: body\nif d: body", "if c or d: body"),
    needs=[leaving("body")],
    because="two guards in a row that leave in the same way are one guard with `or`",
    fires=("n: int; m: int", "if n > 3:\n return 1\nif m > 4:\n return 1\nreturn n"),
    keeps=("n: int; m: int", "if n > 3:\n m = 1\nif m > 4:\n m = 1\nreturn m"),
)
rewrite(
    "merge-alternatives",
    ("if c:\n if d: body\nelse: body", "if not c or d: body"),
    ("if c: body\nelse:\n if d: body", "if c or d: body"),
    because="a branch that is taken under either of two conditions is taken under their `or`",
    fires=("n: int; m: int", "if n > 3:\n m = 1\nelif m > 4:\n m = 1\nreturn m"),
    keeps=("n: int; m: int", "if n > 3:\n m = 1\nelif m > 4:\n m = 2\nreturn m"),
)
