"""Sequences and sets: one form for copies, slices, concatenations, sorting, and operations on sets."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import (
    at_least,
    constant,
    integer,
    of_kind,
    plain,
    small,
    text,
    values_shared,
)
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


rewrite(
    "return-without-copy",
    ("return list(x)", "return x"),
    needs=[of_kind("list", "x"), plain("x"), values_shared],
    because="results are observed by value, and nobody in the program could change what two names share",
    fires=("xs: list[int]", "return list(xs)"),
    keeps=("xs: list[int]", "def g(x):\n return list(x)\ndef f(xs):\n y = g(xs)\n y.append(1)\n return y"),
)
rewrite(
    "copy-of-list",
    ("x[:]", "list(x)"),
    ("x.copy()", "list(x)"),
    needs=[of_kind("list", "x")],
    because="`x[:]`, `x.copy()` and `list(x)` all make a new list of the same elements",
    fires=("xs: list[int]", "ys = xs[:]\nys.append(1)\nreturn ys"),
    keeps=("xs: list[int]", "ys = xs[1:]\nys.append(1)\nreturn ys"),
)
rewrite(
    "whole-text",
    ("x[:]", "x"),
    ("''.join(x)", "x"),
    needs=[text("x")],
    because="a str from its start to its end, or its characters put together, is the str",
    fires=("s: str", "return s[:]"),
    keeps=("xs: list[str]", "return ''.join(xs)"),
)
rewrite(
    "plain-slice",
    ("x[0:b]", "x[:b]"),
    ("x[a:len(x)]", "x[a:]"),
    ("x[:len(x)]", "x[:]"),
    ("x[0:]", "x[:]"),
    ("x[a:b:1]", "x[a:b]"),
    ("x[a::1]", "x[a:]"),
    ("x[:b:1]", "x[:b]"),
    needs=[of_kind("str list", "x")],
    because="a slice starts at 0 and ends at the length unless it says otherwise",
    fires=("s: str; n: int", "return s[n:len(s)]"),
    keeps=("xs: list[int]", "g = [xs, xs]\nreturn g.pop()[:len(g.pop())]"),
)
rewrite(
    "slice-from-end",
    ("x[len(x) - k:]", "x[-k:]"),
    ("x[:len(x) - k]", "x[:-k]"),
    ("len(x[:-k])", "len(x) - k"),
    needs=[of_kind("str list", "x"), constant("k"), at_least(0, "len(x) - k")],
    because="an index below 0 counts from the end",
    fires=("s: str", "if len(s) < 5:\n return s\nreturn s[len(s) - 4:]"),
    keeps=("s: str", "return s[len(s) - 4:]"),
)
rewrite(
    "concatenate-left",
    ("a + (b + c)", "a + b + c"),
    needs=[text("a", "b", "c")],
    because="concatenation is associative",
    fires=("s: str", "return s + ('a' + s)"),
    keeps=("x: float; y: float", "return x + (y + 0.1)"),
)
