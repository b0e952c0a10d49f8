"""Loops: one shape for exits, for going through a str or list by index, for `any` and `all`, for loops over
numbers, and for counters kept by hand."""

from __future__ import annotations

import ast

from skyt.repair.rules.patterns.conditions import (
    Condition,
    always,
    at_least,
    boolean,
    constant,
    integer,
    leaving,
    of_kind,
)
from skyt.repair.rules.patterns.flow import (
    apart,
    breaking,
    ends_function,
    no_continue,
    own,
    unchanged,
)
from skyt.repair.rules.patterns.making import fresh, looks_back, replacing, returning
from skyt.repair.rules.patterns.rewriting import Form, rewrite

HEADS = [f"{head}: {{}}{other}" for head in ("for target in e", "while c") for other in ("", "\nelse: other")]

rewrite(
    "break-to-return",
    *((f"{head}\nreturn x".format("body"), f"{head}\nreturn x".format("inner")) for head in HEADS),
    *((f"{head}\nreturn".format("body"), f"{head}\nreturn".format("inner")) for head in HEADS),
    *((head.format("body"), head.format("inner"), [ends_function]) for head in HEADS),
    needs=[breaking("body")],
    made={"inner": returning("body", "x")},
    because="leaving a loop right before `return E` is returning E from inside it",
    fires="xs: list[int]\nt = 1\nfor x in xs:\n if x < 1:\n  t = 2\n  break\nreturn t",
    keeps="xs: list[int]\nt = 1\nfor x in xs:\n if x < 1:\n  break\nt = 3\nreturn t",
)
rewrite(
    "while-true",
    ("while t:\n if c: break\n rest", "while not c: rest"),
    ("while t:\n if c:\n  leave\n rest", "while not c: rest\nleave", [leaving("leave")]),
    needs=[always(True, "t")],
    because="`while True` that starts by leaving under a condition is `while` the condition does not hold",
    fires="n: int >= 0 <= 50\nwhile True:\n if n < 3:\n  break\n n = n - 1\nreturn n",
    keeps="n: int >= 0 <= 50\nwhile True:\n n = n - 1\n if n < 3:\n  break\nreturn n",
)
rewrite(
    "index-to-element",
    ("for i in range(len(s)): body", "for c in s: inner"),
    ("for i in range(a, len(s)): body", "for c in s[a:]: inner", [at_least(0, "a")]),
    ("for i in range(len(s) - 1, -1, -1): body", "for c in s[::-1]: inner"),
    needs=[of_kind("str list", "s"), unchanged("s", by="body"), own("i")],
    made={"c": fresh("c"), "inner": replacing("body", ("s[i]", "c"))},
    because="the elements come in the order of their indices",
    fires="s: str\nt = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + 1\nreturn t",
    keeps="s: str\nt = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + i\nreturn t",
)
rewrite(
    "enumerate-to-index",
    ("for i, x in enumerate(s): body", "for i in range(len(s)): inner", [own("x")]),
    ("for a, b in zip(s, s[k:]): body", "for j in range(len(s) - k): both", [constant("k"), own("a", "b")]),
    ("for b, a in zip(s[k:], s): body", "for j in range(len(s) - k): both", [constant("k"), own("a", "b")]),
    needs=[of_kind("str list", "s"), unchanged("s", by="body")],
    made={
        "j": fresh("i"),
        "inner": replacing("body", ("x", "s[i]")),
        "both": replacing("body", ("a", "s[j]"), ("b", "s[j + k]")),
    },
    because="the element that comes with an index is the one at that index; the shorter of two tails of one "
    "sequence ends with it",
    fires="xs: list[int]\nt = 0\nfor i, x in enumerate(xs):\n t += i * x\nfor a, b in zip(xs, xs[1:]):\n"
    " t += a * b\nreturn t",
    keeps="xs: list[int]\nt = 0\nfor i, x in enumerate(xs):\n if xs.pop() > i:\n  t = t * 2 + x\nreturn t",
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
    *((f"return a and {q}", f"if not a: return False\nreturn {q}", [boolean("a")]) for q in QUANTIFIERS),
    *((f"return a or {q}", f"if a: return True\nreturn {q}", [boolean("a")]) for q in QUANTIFIERS),
    because="`any` and `all` evaluate one element after the other and stop at the first that decides, and "
    "are not asked if what comes before them in an `and` or `or` decides",
    fires="n: int; xs: list[int]\nreturn n > 2 and n < 9 and all(x > 1 for x in xs)",
    keeps="n: int; xs: list[int]\nif n:\n return n and any(x > 1 for x in xs)\n"
    "return all([x > 1 for x in xs])",
)
LIMITS = {  # a condition of a loop, and the first value of `i` for which it does not hold
    "i < n": "n",
    "i <= n": "n + 1",
    "i + j < n": "n - j",
    "i + j <= n": "n - j + 1",
    "i - j < n": "n + j",
    "i - j <= n": "n + j + 1",
}


def _counting(test: str, limit: str, *needs: Condition) -> list[Form]:
    """The loop that counts by one, and the one that counts by `k`."""
    loop, ranged = (
        f"while {test}:\n body\n i = i + {{}}\n *rest",
        f"for i in range(i, {limit}{{}}):\n body\n *rest",
    )
    return [
        (loop.format(1), ranged.format(""), [*needs]),
        (loop.format("k"), ranged.format(", k"), [*needs, constant("k")]),
    ]


rewrite(
    "counting-loop",
    *(form for test, limit in LIMITS.items() for form in _counting(test, limit, integer(limit))),
    *_counting("i * i <= n", "math.isqrt(n) + 1", at_least(0, "i", "n")),
    needs=[integer("i", "n"), own("i"), apart("rest", of="i"), no_continue("body")],
    because="the counter then takes exactly the values of a range, one a round",
    fires="n: int >= 0 <= 50\nt = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t",
    keeps="n: int >= 0 <= 50\nt = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t + i",
)
rewrite(
    "counter-by-hand",
    (
        "i = 0\n*between\nfor target in e:\n body\n i = i + 1\n *rest",
        "*between\nfor j, target in enumerate(e):\n inner\n *rest",
    ),
    needs=[integer("i"), own("i"), no_continue("body"), apart("body", of="i", within=(ast.GeneratorExp,))],
    made={"j": fresh("i"), "inner": replacing("body", ("i", "j"))},
    because="such a variable is the number of the round",
    fires="xs: list[int]\ni = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n i = i + 1\nreturn r",
    keeps="xs: list[int]\ni = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n  continue\n i = i + 1\n"
    "return r",
)
rewrite(
    "shift-index",
    (
        "for i in range(a, b): body",
        "for i in range(b - a): body",
        [integer("a", "b"), apart("body", of="i")],
    ),
    ("for i in range(a, b): body", "for j in range(a - k, b - k): inner", [constant("a"), integer("b")]),
    needs=[own("i")],
    made={"j": fresh("i"), "k": looks_back("i", "body", "a"), "inner": replacing("body", ("i", "j + k"))},
    because="counting from 1 and looking at i - 1 is counting from 0 and looking at i; where nobody looks, "
    "only the number of rounds matters",
    fires="xs: list[int]\nt = 1\nfor i in range(1, len(xs)):\n t = 2 * t + xs[i] - xs[i - 1]\nreturn t",
    keeps="xs: list[int]\nt = 1\nfor i in range(1, len(xs)):\n t = i * t + xs[i] - xs[i - 1]\nreturn t",
)
