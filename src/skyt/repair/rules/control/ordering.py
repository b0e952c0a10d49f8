"""Order: assignments that do not depend on each other stand in one order."""

from __future__ import annotations

import ast
from itertools import pairwise

from skyt.repair.rules.analysis.effects import conflict, mutates_receiver
from skyt.repair.rules.analysis.ranking import spelled
from skyt.repair.rules.analysis.trees import in_order
from skyt.repair.rules.analysis.vocabulary import MUTATORS
from skyt.repair.rules.registry import Place, block


@block(
    needs="neighbouring assignments of pure values, changes to containers, or an assignment and a condition "
    "behind it, neither of which reads or writes what the other writes, and of which not both may raise or "
    "leave",
    sound="two computations that do not touch each other's data can be done in either order",
    fires=("xs: list[int]; n: int", "a = len(xs)\nb = 0\nif n > 2:\n n = n - 2\nreturn [a, b, a, b, n]"),
    keeps=("xs: list[int]; n: int", "a = len(xs)\nb = a\nif b > 2:\n n = n - 2\nreturn [a, b, a, b, n]"),
)
def order_assignments(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Conditions first; assignments by the shape of the value, then by where the variable is first read."""
    for i, (s, t) in enumerate(pairwise(body)):
        if _target(s) is None or not (
            (isinstance(s, ast.Assign) and isinstance(t, ast.If))
            or (_target(t) is not None and type(s) is type(t) and _before(t, s, place))
        ):
            continue
        scope = place.before(i)
        first, second = scope.effects(s), scope.effects(t)
        if not (first.other or second.other) and not conflict(first, second, scope):
            return [*body[:i], t, s, *body[i + 2 :]]
    return None


def _before(t: ast.stmt, s: ast.stmt, place: Place) -> bool:
    first, second = _shape(t, place), _shape(s, place)
    return first < second or (first == second and _first_read(t, place) < _first_read(s, place))


def _target(s: ast.stmt) -> ast.Name | ast.Attribute | None:
    """What a statement assigns, or the container that it changes."""
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
        owner = mutates_receiver(s.value)
        return owner if isinstance(owner, ast.Name | ast.Attribute) else None
    if isinstance(s, ast.Assign) and len(s.targets) == 1:
        target = s.targets[0]
        if isinstance(target, ast.Name):
            return target
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return target
    return None


def _shape(s: ast.stmt, place: Place) -> str:
    target = _target(s)
    if target is None or not isinstance(s, ast.Assign | ast.Expr):
        return ""
    arguments, known = place.info.arguments, place.context.facts.public | MUTATORS
    shown = spelled(
        in_order(s.value),
        lambda name: f"#{arguments.index(name)}" if name in arguments else "_",
        lambda attr: attr if attr in known else "",
    )
    return f"{isinstance(target, ast.Attribute):d} {shown}"


def _first_read(s: ast.stmt, place: Place) -> int:
    """How far into the program the variable or attribute is first read."""
    info, target, tree = place.info, _target(s), place.context.tree
    if isinstance(target, ast.Attribute):
        return place.context.census(tree).first_read.get("." + target.attr, 0)
    found = place.context.census(info.node).first_read
    return found.get(target.id, 0) if target is not None else 0
