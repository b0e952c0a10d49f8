"""Sorting and reversing in place as values; methods of sets as operators."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import integer, of_kind, small
from skyt.repair.rules.patterns.flow import closed, not_gone_through, owned
from skyt.repair.rules.patterns.rewriting import rewrite

rewrite(
    "change-in-place",
    ("x.reverse()", "x = x[::-1]"),
    ("x.sort()", "x = sorted(x)"),
    ("x.sort(reverse=r)", "x = sorted(x, reverse=r)", [closed("r")]),
    ("x.sort(key=k)", "x = sorted(x, key=k)", [closed("k")]),
    ("x.sort(key=k, reverse=r)", "x = sorted(x, key=k, reverse=r)", [closed("k", "r")]),
    needs=[of_kind("list", "x"), owned("x"), not_gone_through("x")],
    because="nobody else holds the list, so a new list in its place cannot be told apart",
    fires=("xs: list[int]", "r = list(xs)\nr.sort()\nr.reverse()\nreturn r"),
    keeps=("xs: list[int]", "xs.sort()\nreturn xs"),
)
rewrite(
    "expand-divmod",
    ("divmod(a, b)", "(a // b, a % b)"),
    needs=[integer("a", "b"), small("a", "b")],
    because="`divmod` of two integers is their quotient and their remainder",
    fires=("n: int; m: int", "q, r = divmod(n, m)\nreturn q + r"),
    keeps=("x: float; y: float", "q, r = divmod(x, y)\nreturn q + r"),
)
rewrite(
    "set-operator",
    ("a.intersection(b)", "a & b"),
    ("a.union(b)", "a | b"),
    ("a.difference(b)", "a - b"),
    ("a.symmetric_difference(b)", "a ^ b"),
    needs=[of_kind("set", "a", "b")],
    because="the method of a set, given a set, is its operator",
    fires=("s: str; t: str", "return sorted(set(s).intersection(set(t)))"),
    keeps=("s: str; t: str", "return sorted(set(s).intersection(t))"),
)
