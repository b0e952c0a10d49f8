"""Loops: one shape for exits, for going through a str or list by index, and for `any` and `all`."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import always, at_least, boolean, constant, leaving, of_kind
from skyt.repair.rules.patterns.flow import breaking, ends_function, own, unchanged
from skyt.repair.rules.patterns.making import fresh, replacing, returning
from skyt.repair.rules.patterns.rewriting import rewrite

HEADS = [f"{head}: {{}}{other}" for head in ("for target in e", "while c") for other in ("", "\nelse: other")]

rewrite(
    "break-to-return",
    *((f"{head}\nreturn x".format("body"), f"{head}\nreturn x".format("inner")) for head in HEADS),
    *((f"{head}\nreturn".format("body"), f"{head}\nreturn".format("inner")) for head in HEADS),
    *((head.format("body"), head.format("inner"), [ends_function]) for head in HEADS),
    needs=[breaking("body")],
    made={"inner": returning("body", "x")},
    because="leaving a loop right before `return E` is returning E from inside it",
    fires=("xs: list[int]", "t = 1\nfor x in xs:\n if x < 1:\n  t = 2\n  break\nreturn t"),
    keeps=("xs: list[int]", "t = 1\nfor x in xs:\n if x < 1:\n  break\nt = 3\nreturn t"),
)
rewrite(
    "while-true",
    ("while t:\n if c: break\n rest", "while not c: rest"),
    ("while t:\n if c:\n  leave\n rest", "while not c: rest\nleave", [leaving("leave")]),
    needs=[always(True, "t")],
    because="`while True` that starts by leaving under a condition is `while` the condition does not hold",
    fires=("n: int >= 0 <= 50", "while True:\n if n < 3:\n  break\n n = n - 1\nreturn n"),
    keeps=("n: int >= 0 <= 50", "while True:\n n = n - 1\n if n < 3:\n  break\nreturn n"),
)
rewrite(
    "index-to-element",
    ("for i in range(len(s)): body", "for c in s: inner"),
    ("for i in range(0, len(s)): body", "for c in s: inner"),
    ("for i in range(a, len(s)): body", "for c in s[a:]: inner", [at_least(0, "a")]),
    ("for i in range(len(s) - 1, -1, -1): body", "for c in s[::-1]: inner"),
    needs=[of_kind("str list", "s"), unchanged("s", by="body"), own("i")],
    made={"c": fresh("c"), "inner": replacing("body", ("s[i]", "c"))},
    because="the elements come in the order of their indices",
    fires=("s: str", "t = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + 1\nreturn t"),
    keeps=("s: str", "t = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + i\nreturn t"),
)
rewrite(
    "enumerate-to-index",
    ("for i, x in enumerate(s): body", "for i in range(len(s)): inner"),
    needs=[of_kind("str list", "s"), unchanged("s", by="body"), own("x")],
    made={"inner": replacing("body", ("x", "s[i]"))},
    because="the element that comes with an index is the one at that index",
    fires=("xs: list[int]", "t = 0\nfor i, x in enumerate(xs):\n if x > i:\n  t = t * 2 + x\nreturn t"),
    keeps=(
        "xs: list[int]",
        "t = 0\nfor i, x in enumerate(xs):\n if xs.pop() > i:\n  t = t * 2 + x\nreturn t",
    ),
)
rewrite(
    "neighbours-by-index",
    ("for a, b in zip(x, x[k:]): body", "for i in range(len(x) - k): inner"),
    ("for b, a in zip(x[k:], x): body", "for i in range(len(x) - k): inner"),
    needs=[of_kind("str list", "x"), constant("k"), unchanged("x", by="body"), own("a", "b")],
    made={"i": fresh("i"), "inner": replacing("body", ("a", "x[i]"), ("b", "x[i + k]"))},
    because="the shorter of two tails of one sequence ends with it",
    fires=("xs: list[int]", "t = 0\nfor a, b in zip(xs, xs[1:]):\n t = t * 2 + a - b\nreturn t"),
    keeps=(
        "xs: list[int]",
        "t = 0\nfor a, b in zip(xs, xs[1:]):\n if t < 9:\n  xs.append(a)\n t = t + b + 3\nreturn t",
    ),
)


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
