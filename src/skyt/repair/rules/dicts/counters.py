"""Counters that are used as dicts, in the statement that makes them: dicts that a loop fills."""

from __future__ import annotations

from skyt.repair.rules.dicts.conditions import counts
from skyt.repair.rules.dicts.entries import counting_loop
from skyt.repair.rules.patterns.making import Made, fresh
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
