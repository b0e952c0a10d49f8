"""Conditional expressions become conditional statements."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.syntax import load
from skyt.repair.rules.analysis.trees import exchanged, walk
from skyt.repair.rules.control.branches import branch
from skyt.repair.rules.names.inline import find_use, head_of
from skyt.repair.rules.registry import Place, statement

LARGEST = 60


@statement(
    ast.Return,
    ast.Assign,
    ast.Expr,
    needs="a conditional expression that a statement surely evaluates, once; what is evaluated before it "
    "commutes with its test",
    sound="the test decides which of the two values the statement is executed with",
    fires=("n: int", "r = []\nr.append(n + (1 if n < 1 else 2))\nreturn r[0] if r[0] > 3 else 2"),
    keeps=("n: int", "return [1][n] + (1 if 5 // (n - 1) < 1 else 2)"),
)
def expand_conditional(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`x.append(a if c else b)` is `if c: x.append(a)` `else: x.append(b)`."""
    if not isinstance(s, ast.Return | ast.Assign | ast.Expr):
        return None
    nodes = walk(s)
    if len(nodes) > LARGEST:
        return None
    for choice in [n for n in nodes if isinstance(n, ast.IfExp)]:
        whole = isinstance(s, ast.Return | ast.Assign) and s.value is choice
        if not whole and not _first(s, choice, place, i):
            continue
        then, other = exchanged(s, choice, choice.body), exchanged(s, choice, choice.orelse)
        if isinstance(s, ast.Return):
            return [branch(choice.test, [then]), other]
        return [branch(choice.test, [then], [other])]
    return None


def _first(s: ast.stmt, choice: ast.IfExp, place: Place, index: int) -> bool:
    """Whether the test may be evaluated before everything else in the statement."""
    mark = place.context.name("m")
    head = head_of(exchanged(s, choice, load(mark)))
    before: list[ast.expr] = []
    if head is None or find_use(head, mark, before) != "once":
        return False
    scope = place.before(index)
    test = scope.effects(choice.test)
    earlier = [scope.effects(node) for node in before]
    return all(seen.pure and not conflict(seen, test, scope) for seen in earlier)
