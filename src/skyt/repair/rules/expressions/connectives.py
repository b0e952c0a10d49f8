"""Connectives: operands of `and` and `or` that cannot raise stand in one order, equalities in one shape."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import compare, int_value
from skyt.repair.rules.analysis.trees.trees import clone, same, size
from skyt.repair.rules.analysis.values.types import IMMUTABLE, SIZED, kind, ordered
from skyt.repair.rules.expressions.comparisons import rank
from skyt.repair.rules.registry import expression

MOVABLE = "neighbouring operands without effects that cannot raise, of type bool or where only truth counts"


def movable(node: ast.expr, scope: Scope, boolean: bool) -> bool:
    """Whether an operand can be asked before or after its neighbours, or not at all."""
    t = scope.type_of(node)
    plain = t == "bool" or (boolean and (t in IMMUTABLE or kind(t) in SIZED))
    return plain and scope.effects(node).total


def runs(node: ast.BoolOp, scope: Scope, boolean: bool) -> list[tuple[int, int]]:
    """(start, end) of each longest run of operands that can change places."""
    free = [movable(v, scope, boolean) for v in node.values]
    found, start = list[tuple[int, int]](), 0
    for i in range(len(free) + 1):
        if i == len(free) or not free[i]:
            if i - start > 1:
                found.append((start, i))
            start = i + 1
    return found


@expression(
    ast.BoolOp,
    needs=MOVABLE,
    sound="such conditions hold together, or not, in whichever order they are asked",
    fires=("a: int; b: int", "return a + b < 9 and a != b"),
    keeps=("a: int; b: int", "return 9 // (a + b) < 9 and a != b"),
)
def order_operands(node: ast.BoolOp, scope: Scope, boolean: bool) -> ast.expr | None:
    """`a != b and c` in one order: short conditions first, variables in the order in which they are bound."""
    values = list(node.values)
    for start, end in runs(node, scope, boolean):
        values[start:end] = sorted(values[start:end], key=lambda v: (size(v), rank(v, scope)))
    if all(a is b for a, b in zip(values, node.values, strict=True)):
        return None
    return ast.BoolOp(op=node.op, values=values)


@expression(
    ast.BoolOp,
    needs=MOVABLE + "; equalities (under `or`: inequalities) of operands of type int or str",
    sound="equality of such values is transitive: all are equal exactly when each equals the first",
    fires=("a: int; b: int; c: int", "return [a == b and b == c, b != c or c != a]"),
    keeps=("a: float; b: float; c: float", "return a == b and b == c"),
)
def equal_to_first(node: ast.BoolOp, scope: Scope, boolean: bool) -> ast.expr | None:
    """`a == b and b == c` is `a == b and a == c`."""
    wanted = ast.Eq if isinstance(node.op, ast.And) else ast.NotEq
    for start, end in runs(node, scope, boolean):
        run = node.values[start:end]
        links = [v for v in run if isinstance(v, ast.Compare) and _links(v, wanted, scope)]
        for members in _classes(links):
            if len(members) < 3:
                continue
            first, *others = sorted(members, key=lambda m: rank(m, scope))
            star: list[ast.expr] = [compare(clone(first), wanted, clone(m)) for m in others]
            own = [v for v in links if any(same(v.left, m) for m in members)]
            if len(own) == len(star) and all(any(same(v, s) for s in star) for v in own):
                continue
            at = next(i for i, v in enumerate(run) if v is own[0])
            kept = [v for v in run if not any(v is o for o in own)]
            new = [*node.values[:start], *kept[:at], *star, *kept[at:], *node.values[end:]]
            return ast.BoolOp(op=node.op, values=new)
    return None


def _links(node: ast.Compare, wanted: type[ast.cmpop], scope: Scope) -> bool:
    if not (len(node.ops) == 1 and isinstance(node.ops[0], wanted)):
        return False
    sides = (node.left, node.comparators[0])
    constant = any(isinstance(x, ast.Constant) or int_value(x) is not None for x in sides)
    return not constant and ordered(scope.type_of(sides[0]), scope.type_of(sides[1]))


def _classes(links: list[ast.Compare]) -> list[list[ast.expr]]:
    """The sets of expressions that the equalities connect."""
    classes: list[list[ast.expr]] = []
    for link in links:
        sides = [link.left, link.comparators[0]]
        touched = [c for c in classes if any(same(m, x) for m in c for x in sides)]
        joined = [m for c in touched for m in c]
        joined += [x for k, x in enumerate(sides) if not any(same(x, m) for m in [*joined, *sides[:k]])]
        classes = [*(c for c in classes if not any(c is t for t in touched)), joined]
    return classes
