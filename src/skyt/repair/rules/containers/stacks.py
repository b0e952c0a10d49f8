"""Stacks and three-way comparisons: the same decision, taken in another order."""

from __future__ import annotations

import ast
from itertools import pairwise

from skyt.repair.rules.analysis.trees.syntax import compare, count_reads, leaves, load
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.registry import Place, block


@block(
    needs="a list that the function owns; a branch that leaves without looking at it again",
    sound="where the branch is taken nobody sees the list any more; where it is not, the element is "
    "popped once either way",
    fires=(
        "s: str",
        (
            "def f(s):\n k = []\n for c in s:\n  k.append(c)\n for c in s:\n  if not k or k[-1] != c:\n"
            "   return False\n  k.pop()\n return True"
        ),
    ),
    keeps=(
        "s: str",
        (
            "def f(s):\n k = []\n for c in s:\n  k.append(c)\n for c in s:\n  if not k or k[-1] != c:\n"
            "   return len(k)\n  k.pop()\n return True"
        ),
    ),
)
def pop_at_test(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if s[-1] != x: return False` then `s.pop()` is `if s.pop() != x: return False`."""
    for i, (s, t) in enumerate(pairwise(body)):
        name = _popped(t)
        if name is None or not isinstance(s, ast.If) or s.orelse or not leaves(s.body):
            continue
        if name not in place.scope.owned or kind(place.scope.type_of(load(name))) != "list":
            continue
        if count_reads(s.body, name) or not _exits(s.body):
            continue
        last = s.test.values[-1] if isinstance(s.test, ast.BoolOp) else s.test
        if isinstance(s.test, ast.BoolOp) and not isinstance(s.test.op, ast.Or):
            continue
        peek = ast.Subscript(
            value=load(name), slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), ctx=ast.Load()
        )
        if not (isinstance(last, ast.Compare) and len(last.ops) == 1):
            continue
        sides = [last.left, last.comparators[0]]
        if sum(same(side, peek) for side in sides) != 1 or count_reads(last, name) != 1:
            continue
        other = sides[0] if same(sides[1], peek) else sides[1]
        seen = place.scope.effects(other)
        if not seen.pure:
            continue
        pop = ast.Call(func=ast.Attribute(value=load(name), attr="pop", ctx=ast.Load()), args=[], keywords=[])
        left, right = (pop if same(side, peek) else side for side in sides)
        test: ast.expr = compare(left, type(last.ops[0]), right)
        if isinstance(s.test, ast.BoolOp):
            test = ast.BoolOp(op=ast.Or(), values=[*s.test.values[:-1], test])
        return [*body[:i], ast.If(test=test, body=s.body, orelse=[]), *body[i + 2 :]]
    return None


def _popped(s: ast.stmt) -> str | None:
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and not s.value.args:
        function = s.value.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "pop"
            and isinstance(function.value, ast.Name)
        ):
            return function.value.id
    return None


def _exits(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise)
