"""Totals: counting, and keeping the largest, in one form each."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import boolean, integer, last_for
from skyt.repair.rules.patterns.flow import local
from skyt.repair.rules.patterns.making import ranked
from skyt.repair.rules.patterns.rewriting import rewrite

rewrite(
    "count-to-sum",
    ("len([f for target in e if c])", "sum(1 for target in e if c)"),
    ("sum(b for target in e if c)", "sum(1 for target in e if c and b)", [boolean("b")]),
    needs=[last_for],
    because="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires=("xs: list[int]", "return len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)"),
    keeps=("xs: list[int]", "return len([1 // x for x in xs]) + sum(x for x in xs)"),
)

LARGER = ("a < b", "a <= b", "b > a", "b >= a")  # which says that b is the larger one

rewrite(
    "keep-extreme",
    *((f"if {test}: a = b", "a = max(p, q)", [local("a")]) for test in LARGER),
    *((f"if {test}: b = a", "b = min(p, q)", [local("b")]) for test in LARGER),
    *((f"if {test}: t = b\nelse: t = a", "t = max(p, q)") for test in LARGER),
    *((f"if {test}: t = a\nelse: t = b", "t = min(p, q)") for test in LARGER),
    needs=[integer("a", "b")],
    made={"p": ranked("a", "b", 0), "q": ranked("a", "b", 1)},
    because="the larger of two integers is what is left after replacing the smaller by the larger",
    fires=("n: int; m: int", "if n < m:\n n = m\nif n > 7:\n k = 7\nelse:\n k = n\nreturn [n, k]"),
    keeps=("n: float; m: float", "if n < m:\n n = m\nreturn n"),
)
