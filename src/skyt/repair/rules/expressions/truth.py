"""Truth: one form for emptiness, for integers as conditions, and for boolean connectives."""

from __future__ import annotations

import ast

from skyt.repair.rules.patterns.conditions import boolean, integer, of_kind, sized, truth_only
from skyt.repair.rules.patterns.rewriting import rewrite

rewrite(
    "truth-of-length",
    ("len(x)", "x"),
    needs=[truth_only(), sized("x")],
    because="a length is 0 exactly when its container is false",
    fires=("s: str", "if len(s):\n return 1\nreturn 2"),
    keeps=("s: any", "if len(s):\n return 1\nreturn 2"),
)
rewrite(
    "truth-of-integer",
    ("x", "x != 0"),
    on=(ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute),
    needs=[truth_only(), integer("x")],
    because="an int is false exactly when it is 0",
    fires=("n: int", "if n:\n return 1\nreturn 2"),
    keeps=("n: any", "if n:\n return 1\nreturn 2"),
)
rewrite(
    "drop-unit",
    ("True and x", "x"),
    ("False or x", "x"),
    because="True is the unit of `and`, False of `or`",
    fires=("n: int", "return True and n < 3"),
    keeps=("n: int", "return n < 3 and True"),
)
rewrite(
    "drop-last-unit",
    ("x and True", "x"),
    ("x or False", "x"),
    needs=[truth_only()],
    because="True is the unit of `and`, False of `or`",
    fires=("s: str", "if s and True:\n return 1\nreturn 2"),
    keeps=("s: str", "return s and True"),
)
rewrite(
    "deciding-operand",
    ("False and x", "False"),
    ("True or x", "True"),
    because="what follows a deciding constant is never evaluated",
    fires=("n: int", "return n < 3 and False and 1 // n < 2"),
    keeps=("n: int", "return 1 // n < 2 and False"),
)
FULL = ("len(x) != 0", "len(x) > 0", "0 < len(x)", "len(x) >= 1", "1 <= len(x)")
EMPTY = ("len(x) == 0", "len(x) <= 0", "len(x) < 1", "0 == len(x)")
rewrite(
    "emptiness",
    *((text, "not x") for text in EMPTY),
    *((text, "bool(x)") for text in FULL),
    needs=[sized("x")],
    because="such a value is empty exactly when its length is 0, and exactly then it is false",
    fires=("s: str", "return len(s) == 0"),
    keeps=("s: str", "return len(s) == 1"),
)
for empty, kinds in (("[]", "list"), ("''", "str")):
    rewrite(
        f"empty-{kinds}",
        (f"x == {empty}", "not x"),
        (f"x != {empty}", "bool(x)"),
        needs=[of_kind(kinds, "x")],
        because="a value equals the empty value of its type exactly when it is false",
        fires=("s: str; xs: list[int]", f"x = {kinds}(s)\nreturn x == {empty}"),
        keeps=("s: str; xs: list[int]", f"x = len(s)\nreturn x == {empty}"),
    )
rewrite(
    "truth-of-truth",
    ("bool(x)", "x"),
    needs=[truth_only()],
    because="`bool(x)` is true exactly when x is",
    fires=("s: str", "if bool(s):\n return 1\nreturn 2"),
    keeps=("s: str", "return bool(s)"),
)
rewrite(
    "plain-boolean",
    *((text, "x") for text in ("bool(x)", "x == True", "x is True", "x != False", "x is not False")),
    *((text, "not x") for text in ("x == False", "x is False", "x != True", "x is not True")),
    needs=[boolean("x")],
    because="of a boolean, `bool(x)`, `x is True` and `x == True` are the boolean",
    fires=("n: int", "b = n > 3\nreturn b == True"),
    keeps=("n: int", "return n == True"),
)
