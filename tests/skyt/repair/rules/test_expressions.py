"""Expressions in one form: what must become the same text, what must not, and that behaviour is kept."""

from __future__ import annotations

import pytest
from benchmarks.red_team import Program, differences, facts_of

from skyt.repair.rules import normal_form
from skyt.sandbox import SandboxPool

THREE = "a: int; b: int; c: int"
SAME = [
    (
        "s: str; n: int",
        "def f(s, n):\n t = 0\n for c in s:\n  t += 2 ** len(s)\n return n == t",
        "def f(s, n):\n return sum(2 ** len(s) for c in s) == n",
    ),
    (THREE, "def f(a, b, c):\n return a == b == c", "def f(a, b, c):\n return b == c and b == a"),
    (
        THREE,
        "def f(a, b, c):\n return a != b and b != c and a != c",
        "def f(a, b, c):\n return not (c == a or c == b or a == b)",
    ),
    ("a: int; b: int", "def f(a, b):\n return 2 * (a + b)", "def f(a, b):\n return 2 * b + a + a"),
    ("a: int; b: int", "def f(a, b):\n return -1 * (a - b)", "def f(a, b):\n return b - a"),
    (
        "n: int",
        "def f(n):\n if n < 0:\n  return abs(n) * 3\n return n",
        "def f(n):\n if n < 0:\n  return n * -3\n return n",
    ),
    (
        "n: int",
        "def f(n):\n s = str(n)\n return s + s[::-1] if len(s) > 2 else s",
        "def f(n):\n k = len(str(n))\n if k > 2:\n  return str(n) + str(n)[::-1]\n return str(n)",
    ),
    ("s: str", "def f(s):\n return not 0 <= int(s) <= 9", "def f(s):\n return int(s) < 0 or int(s) > 9"),
]
DIFFERENT = [  # a pair that must stay apart, because it does not do the same
    ("n: int; e: int", "def f(n, e):\n return n ** e", "def f(n, e):\n return int(n ** e)"),
    ("a: int; b: int", "def f(a, b):\n return a < 9 or 1 // b", "def f(a, b):\n return 1 // b or a < 9"),
    ("n: int", "def f(n):\n s = str(n)\n n += 1\n return s + s", "def f(n):\n n += 1\n return str(n) * 2"),
    ("a: int; b: int", "def f(a, b):\n return a and b", "def f(a, b):\n return b and a"),
    ("xs: list[int]", "def f(xs):\n return xs and 5", "def f(xs):\n return 5 and xs"),
]


@pytest.mark.parametrize(("facts", "one", "other"), SAME)
def test_two_ways_to_say_the_same_have_one_form(facts: str, one: str, other: str) -> None:
    assert normal_form(one, facts_of(facts)).text == normal_form(other, facts_of(facts)).text


@pytest.mark.parametrize(("facts", "one", "other"), DIFFERENT)
def test_what_differs_keeps_different_forms(facts: str, one: str, other: str) -> None:
    assert normal_form(one, facts_of(facts)).text != normal_form(other, facts_of(facts)).text


def test_the_forms_keep_behaviour() -> None:
    programs = [Program(code, facts, code) for facts, *both in (*SAME, *DIFFERENT) for code in both]
    with SandboxPool(workers=2) as pool:
        found = list(differences(programs, pool, calls=40))
    assert [d for _, _, d in found if d is not None] == []
    assert all(form.complete for _, form, _ in found)
