"""Counting loops: one form for loops over numbers, and for counters kept by hand."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import Condition, at_least, constant, integer
from skyt.repair.rules.patterns.flow import apart, never_read, no_continue, not_kept, own
from skyt.repair.rules.patterns.making import fresh, looks_back, replacing
from skyt.repair.rules.patterns.rewriting import Form, rewrite

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
    fires=("n: int >= 0 <= 50", "t = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t"),
    keeps=("n: int >= 0 <= 50", "t = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t + i"),
)
rewrite(
    "counter-by-hand",
    (
        "i = 0\n*between\nfor target in e:\n body\n i = i + 1\n *rest",
        "*between\nfor j, target in enumerate(e):\n inner\n *rest",
    ),
    needs=[integer("i"), own("i"), no_continue("body"), not_kept("i", by="body")],
    made={"j": fresh("i"), "inner": replacing("body", ("i", "j"))},
    because="such a variable is the number of the round",
    fires=("xs: list[int]", "i = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n i = i + 1\nreturn r"),
    keeps=(
        "xs: list[int]",
        "i = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n  continue\n i = i + 1\nreturn r",
    ),
)
rewrite(
    "anonymous-rounds",
    ("for i in range(a, b): body", "for i in range(b - a): body"),
    needs=[integer("a", "b"), own("i"), never_read("i", by="body")],
    because="only the number of rounds of such a loop matters",
    fires=("n: int >= 0 <= 50", "t = 1\nfor i in range(2, n + 1):\n t = t * 2\nreturn t"),
    keeps=("n: int >= 0 <= 50", "t = 1\nfor i in range(2, n + 1):\n t = t * i\nreturn t"),
)
rewrite(
    "shift-index",
    ("for i in range(a, n): body", "for j in range(a - k, n - k): inner"),
    needs=[constant("a"), integer("n"), own("i")],
    made={"j": fresh("i"), "k": looks_back("i", "body", "a"), "inner": replacing("body", ("i", "j + k"))},
    because="counting from 1 and looking at i - 1 is counting from 0 and looking at i",
    fires=("xs: list[int]", "t = 1\nfor i in range(1, len(xs)):\n t = 2 * t + xs[i] - xs[i - 1]\nreturn t"),
    keeps=("xs: list[int]", "t = 1\nfor i in range(1, len(xs)):\n t = i * t + xs[i] - xs[i - 1]\nreturn t"),
)
