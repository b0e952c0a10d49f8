"""Values that may be written down again at each use instead of under a name."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import LOOPS, count_reads
from skyt.repair.rules.analysis.trees.trees import COMPREHENSIONS, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE

SMALL = 12
CHEAP = frozenset({"len", "str", "abs", "int"})


def repeatable(value: ast.expr, uses: int, rest: list[ast.stmt], name: str, scope: Scope) -> bool:
    """Whether a value is so small, or used so rarely, that its name can go."""
    if isinstance(value, ast.Name | ast.Constant):
        return True
    if scope.type_of(value) in IMMUTABLE - {"float"}:  # of one NaN there may be two
        nodes = walk(value)
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        if len(nodes) <= SMALL and not any(isinstance(n, COMPREHENSIONS) for n in nodes):
            called = {scope.builtin(n.func) for n in calls}
            if called <= {"len"}:
                return True
            cheap = called <= CHEAP and scope.effects(value).total
            if cheap and not any(_indexed_in_loop(t, name) for t in rest):
                return True
    return uses == 1 and not any(_inside_loop(t, name) for t in rest)


def _indexed_in_loop(t: ast.stmt, name: str) -> bool:
    """Whether a loop looks up parts of a value: there it keeps its name."""
    loops = [n for n in walk(t) if isinstance(n, LOOPS)]
    return any(isinstance(n, ast.Subscript) and count_reads(n.value, name) for n in walk(loops))


def _inside_loop(t: ast.stmt, name: str) -> bool:
    for n in walk(t):
        again = n.body if isinstance(n, ast.For) else n  # what runs more than once, or later
        if isinstance(n, (*LOOPS, *COMPREHENSIONS, ast.Lambda)) and count_reads(again, name):
            return True
    return False
