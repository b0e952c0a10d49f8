"""Quantifiers: `any` and `all` as the loops they stand for."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import boolean
from skyt.repair.rules.patterns.rewriting import rewrite

ALL, ANY = "all(c for target in e if d)", "any(c for target in e if d)"
QUANTIFIERS = (ALL, ANY, f"not {ALL}", f"not {ANY}")
LOOP = "for target in e:\n if d:\n  if {}: return {}\nreturn {}"

rewrite(
    "expand-quantifier",
    (f"return {ALL}", LOOP.format("not c", False, True)),
    (f"return {ANY}", LOOP.format("c", True, False)),
    (f"return not {ALL}", LOOP.format("not c", True, False)),
    (f"return not {ANY}", LOOP.format("c", False, True)),
    because="`any` and `all` evaluate one element after the other and stop at the first that decides",
    fires=("xs: list[int]", "return all(x > 1 for x in xs)"),
    keeps=("xs: list[int]", "return all([x > 1 for x in xs])"),
)
rewrite(
    "quantifier-last",
    *((f"return a and {q}", f"if not a: return False\nreturn {q}") for q in QUANTIFIERS),
    *((f"return a or {q}", f"if a: return True\nreturn {q}") for q in QUANTIFIERS),
    needs=[boolean("a")],
    because="`and` and `or` evaluate what comes last only if what comes before does not decide",
    fires=("n: int; xs: list[int]", "return n > 2 and n < 9 and any(x > 1 for x in xs)"),
    keeps=("n: int; xs: list[int]", "return n and any(x > 1 for x in xs)"),
)
