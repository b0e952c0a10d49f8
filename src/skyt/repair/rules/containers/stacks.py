"""Stacks and three-way comparisons: the same decision, taken in another order."""

from __future__ import annotations

import ast
from itertools import pairwise

from skyt.repair.rules.analysis.trees.syntax import count_reads
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.patterns.pieces import pieces, value
from skyt.repair.rules.registry import Place, block


@block(
    needs="a list that the function owns; a branch that leaves without looking at it again",
    sound="where the branch is taken nobody sees the list any more; where it is not, the element is "
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
def pop_at_test(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if s[-1] != x: return False` then `s.pop()` is `if s.pop() != x: return False`."""
    scope = place.scope
    for i, (s, t) in enumerate(pairwise(body)):
        p, q = pieces("if c: leave", s), pieces("k.pop()", t)
        if p is None or q is None or not isinstance(q["k"], ast.Name) or q["k"].id not in scope.owned:
            continue
        name, test = q["k"].id, p["c"]
        if kind(scope.type_of(q["k"])) != "list" or count_reads(p["leave"], name):
            continue
        if not isinstance(p["leave"][-1], ast.Return | ast.Raise):
            continue
        either = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
        last = clone(test.values[-1] if either else test)
        if not (isinstance(last, ast.Compare) and len(last.ops) == 1) or count_reads(last, name) != 1:
            continue
        peek, pop = value("k[-1]", k=name), value("k.pop()", k=name)
        if same(last.left, peek) and scope.effects(last.comparators[0]).pure:
            last.left = pop
        elif same(last.comparators[0], peek) and scope.effects(last.left).pure:
            last.comparators = [pop]
        else:
            continue
        whole = ast.BoolOp(op=ast.Or(), values=[*test.values[:-1], last]) if either else last
        return [*body[:i], ast.If(test=whole, body=p["leave"], orelse=[]), *body[i + 2 :]]
    return None
