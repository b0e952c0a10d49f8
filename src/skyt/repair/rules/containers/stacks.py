"""Stacks: the same decision, taken before or after an element is popped."""

from __future__ import annotations

from skyt.repair.rules.patterns.conditions import of_kind
from skyt.repair.rules.patterns.flow import apart, owned, returning_always
from skyt.repair.rules.patterns.rewriting import rewrite

TESTS = [test for op in ("==", "!=", "<", "<=") for test in (f"{{}} {op} x", f"x {op} {{}}")]

rewrite(
    "pop-at-test",
    *(
        (f"if {first}{test.format('k[-1]')}: leave\nk.pop()", f"if {first}{test.format('k.pop()')}: leave")
        for first in ("", "c or ")
        for test in TESTS
    ),
    needs=[of_kind("list", "k"), owned("k"), returning_always("leave"), apart("leave", "x", of="k")],
    because="where the branch is taken nobody sees the list any more; where it is not, the element is "
    "popped once either way",
    fires=(
        "s: str",
        "k = []\nfor c in s:\n k.append(c)\nfor c in s:\n if not k or k[-1] != c:\n  return False\n"
        " k.pop()\nreturn True",
    ),
    keeps=(
        "s: str",
        "k = []\nfor c in s:\n k.append(c)\nfor c in s:\n if not k or k[-1] != c:\n  return len(k)\n"
        " k.pop()\nreturn True",
    ),
)
