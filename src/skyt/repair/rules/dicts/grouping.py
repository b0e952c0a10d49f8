"""Entries of dicts that are made when first needed: one form for grouping and for counting."""

from __future__ import annotations

from skyt.repair.rules.dicts.conditions import an_int, counting_loop, counts, entry, lists_kept, unseen
from skyt.repair.rules.patterns.conditions import Condition, immutable, integer, number
from skyt.repair.rules.patterns.making import Made, folded, fresh
from skyt.repair.rules.patterns.rewriting import Form, rewrite

COUNTER = "collections.Counter(e)"
VIEWS = ("@", "@.items()", "@.keys()", "@.values()")
WHOLE = (
    "[f for target in @ if c]",
    "{f for target in @ if c}",
    "{f: g for target in @ if c}",
    "sorted(@)",
    "len(@)",
)
USES = [whole.replace("@", view) for whole in WHOLE for view in VIEWS]


def _form(statement: str) -> Form:
    """A statement that uses a counter (`@`) in a way that a dict answers alike."""
    return statement.replace("@", COUNTER), f"counting\n{statement}".replace("@", "d")


rewrite(
    "counter-to-loop",
    *((f"{last}dict({COUNTER})", f"counting\n{last}d") for last in ("return ", "targets = ")),
    *(_form(last + use) for use in USES for last in ("return ", "targets = ")),
    *(_form(f"for targets in {view}: body") for view in VIEWS),
    needs=[counts("e")],
    made={
        "d": fresh("d"),
        "counting": Made(
            "a loop that counts the elements of `e` in a new dict `d`",
            lambda found, where: counting_loop(found["d"], found["e"], where.name("c", found)),
            like=COUNTER,
        ),
    },
    because="a counter adds one for each element in turn, starting from nothing",
    fires=(
        "s: str",
        "import collections\ndef f(s):\n"
        " d = {k: n for k, n in collections.Counter(s).items() if n > 1}\n"
        " e = dict(collections.Counter(c.lower() for c in s))\n n = len(collections.Counter(s))\n"
        " return [d, e, n]",
    ),
    keeps=("s: str", "import collections\ndef f(s):\n return collections.Counter(s)['a']"),
)


INSERT = "if k not in d: d[k] = {}"
METHODS = ("append", "add", "extend", "update", "remove", "discard", "insert")

rewrite(
    "insert-if-missing",
    *((f"d.setdefault(k, v).{m}(x)", f"{INSERT.format('v')}\nd[k].{m}(x)") for m in METHODS),
    *((before, INSERT.format("v")) for before in ("d.setdefault(k, v)", "d[k] = d.get(k, v)")),
    *((before, INSERT.format("None")) for before in ("d.setdefault(k)", "d[k] = d.get(k)")),
    needs=[entry("d", "k")],
    because="`setdefault` stores its value exactly where the key is missing, and gives the entry",
    fires=(
        "xs: list[str]",
        "d = {}\ne = {}\ng = {}\nfor x in xs:\n d.setdefault(len(x), []).append(x)\n"
        " e.setdefault(x, len(e))\n g[x] = g.get(x, 3)\nreturn [d, e, g]",
    ),
    keeps=("xs: list[str]", "d = {}\nfor x in xs:\n d.setdefault(x, 1 // len(x))\nreturn d"),
)

GROWN: tuple[tuple[str, str, str, list[Condition]], ...] = (
    ("d[k].append(x)", "[x]", "[]", []),
    ("d[k].add(x)", "{x}", "set()", [immutable("x")]),
)

rewrite(
    "append-to-entry",
    *(
        (before, f"{INSERT.format(empty)}\n{grow}", needs)
        for grow, start, empty, needs in GROWN
        for before in (
            f"if k in d: {grow}\nelse: d[k] = {start}",
            f"if k not in d: d[k] = {start}\nelse: {grow}",
        )
    ),
    needs=[entry("d", "k"), unseen("x", "d", "k")],
    because="a list of one element is an empty list to which it is appended",
    fires=(
        "xs: list[str]",
        "d = {}\ne = {}\nfor x in xs:\n if len(x) in d:\n  d[len(x)].append(x)\n else:\n"
        "  d[len(x)] = [x]\n if x not in e:\n  e[x] = {len(x)}\n else:\n  e[x].add(len(x))\n"
        "return [d, e]",
    ),
    keeps=(
        "xs: list[str]",
        "d = {}\nfor x in xs:\n if x in d:\n  d[x].append(len(d))\n else:\n  d[x] = [len(d)]\nreturn d",
    ),
)
rewrite(
    "lengthen-entry",
    ("d[k] = d.get(k, []) + [x]", f"{INSERT.format('[]')}\nd[k].append(x)"),
    needs=[entry("d", "k"), unseen("x", "d", "k"), lists_kept("d")],
    because="nobody has the list that was there before, so that it may be lengthened in place",
    fires=("xs: list[str]", "d = {}\nfor x in xs:\n d[len(x)] = d.get(len(x), []) + [x]\nreturn d"),
    keeps=(
        "xs: list[str]",
        "d = {}\nr = []\nfor x in xs:\n d[len(x)] = d.get(len(x), []) + [x]\n r.append(d[len(x)])\nreturn r",
    ),
)

COUNTED: tuple[tuple[str, list[Condition]], ...] = (
    ("d[k] = d[k] + e", []),
    ("d[k] = e + d[k]", [integer("e", "d[k]")]),
)
CHOICES = ("if k in d: {found}\nelse: d[k] = {first}", "if k not in d: d[k] = {first}\nelse: {found}")

rewrite(
    "count-by-get",
    *(
        (f"{first}\n{found}", "d[k] = d.get(k, v) + e", [*needs, number("v")])
        for found, needs in COUNTED
        for first in ("d.setdefault(k, v)", "if k not in d: d[k] = v")
    ),
    *(
        (choice.format(found=found, first="v"), "d[k] = d.get(k, w) + e", needs)
        for found, needs in COUNTED
        for choice in CHOICES
    ),
    *(
        (choice.format(found=found, first="e"), "d[k] = d.get(k, 0) + e", [*needs, an_int("e")])
        for found, needs in COUNTED
        for choice in CHOICES
    ),
    needs=[entry("d", "k"), immutable("k"), unseen("e", "d", "k", "d.get(k, 0) + e")],
    made={"w": folded("v - e")},
    because="`get` gives the value under the key, or the default that would have been stored there first",
    fires=(
        "s: str",
        "d = {}\ne = {}\ng = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + 1\n else:\n  d[c] = 1\n"
        " if c not in e:\n  e[c] = 5\n e[c] += 2\n if c in g:\n  g[c] = g[c] + len(s)\n else:\n"
        "  g[c] = len(s)\nreturn [d, e, g]",
    ),
    keeps=("s: str", "d = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + d[c]\n else:\n  d[c] = 1\nreturn d"),
)
