"""Assignments: split, expanded and dropped, so that only what carries information is left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import permutations

from skyt.repair.rules.patterns.conditions import immutable, of_kind
from skyt.repair.rules.patterns.flow import local, settled, unseen
from skyt.repair.rules.patterns.rewriting import rewrite


def simple_target(s: ast.stmt) -> str | None:
    """The name that `name = value` assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


rewrite(
    "split-chained",
    ("x = y = e", "x = e\ny = e"),
    ("x = y = z = e", "x = e\ny = e\nz = e"),
    needs=[of_kind("int bool str none", "e")],
    because="every variable gets the same value, left to right, and evaluating it again gives it again",
    fires=("n: int", "a = b = 0\nreturn a + b + n"),
    keeps=("n: int", "a = b = []\na.append(n)\nreturn b"),
)


def _splits(count: int) -> Iterator[tuple[str, str]]:
    """An assignment of this many values at once, and one after the other in every order."""
    parts = [(f"target_{name}", name) for name in "abcd"[:count]]
    before = ", ".join(t for t, _ in parts) + " = " + ", ".join(v for _, v in parts)
    for ordered in permutations(parts):
        yield before, "\n".join(f"{t} = {v}" for t, v in ordered)


rewrite(
    "split-tuple",
    *(form for count in (2, 3, 4) for form in _splits(count)),
    needs=[unseen("target")],
    because="where no part reads what an earlier one stored, all values are the same as before any store, "
    "and a local that is stored earlier cannot be seen",
    fires=("n: int", "a, b = 0, n\nreturn a - b"),
    keeps=("a: int; b: int", "a, b = b, a\nreturn a - b"),
)
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
rewrite(
    "expand-augmented",
    *((f"target {op}= e", f"target = target {op} e") for op in ARITHMETIC),
    needs=[immutable("target"), settled("target", "e")],
    because="on immutable values `x += e` is `x = x + e`",
    fires=("n: int", "n += 1\nreturn n"),
    keeps=("n: any", "n += 1\nreturn n"),
)
rewrite(
    "extend-in-place",
    ("x += [e]", "x.append(e)"),
    ("x += e", "x.extend(e)"),
    needs=[of_kind("list", "x"), local("x")],
    because="on a list `x += e` is `x.extend(e)`",
    fires=("n: int", "x = [n]\nx += [n, 1]\nx += [n]\nreturn x"),
    keeps=("x: any", "x += [1]\nreturn x"),
)
