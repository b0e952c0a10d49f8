"""Truth: one form for emptiness, for integers as conditions, and for boolean connectives."""

from __future__ import annotations

import ast

from skyt.repair.rules.patterns.conditions import boolean, integer, of_kind, sized, truth_only
from skyt.repair.rules.patterns.rewriting import rewrite

rewrite(
    "truth-of-integer",
    ("x", "x != 0"),
    on=(ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute),
    needs=[truth_only, integer("x")],
    because="an int is false exactly when it is 0",
    fires=("n: int", "if n:\n return 1\nreturn 2"),
    keeps=("n: any", "if n:\n return 1\nreturn 2"),
)
rewrite(
    "constant-operand",
    ("True and x", "x"),
    ("False or x", "x"),
    ("False and x", "False"),
    ("True or x", "True"),
    ("x and True", "x", [truth_only]),
    ("x or False", "x", [truth_only]),
    because="True is the unit of `and`, False of `or`; what follows a deciding constant is not evaluated",
    fires=("n: int; s: str", "if s and True:\n return True and n < 3\nreturn n < 2 and False and 1 // n < 2"),
    keeps=("n: int; s: str", "return [1 // n < 2 and False, s and True]"),
)
FULL = ("len(x) != 0", "len(x) > 0", "0 < len(x)", "len(x) >= 1", "1 <= len(x)")
EMPTY = ("len(x) == 0", "len(x) <= 0", "len(x) < 1", "0 == len(x)")
rewrite(
    "emptiness",
    *((text, "not x", [sized("x")]) for text in EMPTY),
    *((text, "bool(x)", [sized("x")]) for text in FULL),
    ("x == []", "not x", [of_kind("list", "x")]),
    ("x != []", "bool(x)", [of_kind("list", "x")]),
    ("x == ''", "not x", [of_kind("str", "x")]),
    ("x != ''", "bool(x)", [of_kind("str", "x")]),
    because="such a value is empty exactly when its length is 0, or it equals the empty value of its type, "
    "and exactly then it is false",
    fires=("s: str; xs: list[int]", "return [len(s) == 0, s != '', xs == []]"),
    keeps=("s: str; xs: list[int]", "return [len(s) == 1, len(xs) == [], s == []]"),
)
rewrite(
    "truth-of-truth",
    ("bool(x)", "x"),
    needs=[truth_only],
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
