"""Computed pieces: what a name of the after side stands for that is not in the program as it is.

    rewrite("strict-integers", ("a <= k", "a < m"), made={"m": folded("k + 1")}, …)

The order of evaluation is checked with them too. A piece that is computed from others is, unless it says
otherwise, something new in the place of something dropped, and both must go unnoticed. One that evaluates
what a template of the matched pieces evaluates, in its order, names that template (`like`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skyt.repair.rules.analysis.effects.commuting import conflict
from skyt.repair.rules.analysis.ranking import rank
from skyt.repair.rules.analysis.trees.syntax import number
from skyt.repair.rules.analysis.values.evaluate import GiveUpError, returned
from skyt.repair.rules.patterns.conditions import Where
from skyt.repair.rules.patterns.pieces import value
from skyt.repair.rules.patterns.template import Found, Template, Value


@dataclass(frozen=True)
class Made:
    """A piece that is computed; None where it cannot be, and then the rule does not apply."""

    words: str
    compute: Callable[[Found, Where], Value | None]
    like: str = ""  # a template with the same evaluations, in the same order, and the same truth


class Spelled(ast.NodeTransformer):
    """A template with computed names replaced by what they evaluate."""

    def __init__(self, made: Mapping[str, Made]) -> None:
        self.likes = {name: m.like for name, m in made.items() if m.like}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        like = self.likes.get(node.id)
        return Template.read(like).body[0].value if like else node  # type: ignore[attr-defined]


def constant_value(node: ast.expr) -> int | str | bool | None:
    """The value of an expression of constants; None where it is not one, raises, or is none of these."""
    try:
        found = returned([ast.Return(value=node)], {}).value
    except GiveUpError:
        return None
    return found if type(found) in (int, str, bool) else None


def folded(template: str) -> Made:
    """The constant that an expression of the matched pieces comes to: `folded("k + 1")`."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        result = constant_value(value(template, **found))
        if result is None:
            return None
        return number(result) if type(result) is int else ast.Constant(value=result)

    return Made(f"the value of `{template}`, a constant", compute)


def ranked(a: str, b: str, place: int) -> Made:
    """The first or the second of two pieces, in the order that all commutative operations have."""

    def compute(found: Found, where: Where) -> Value:
        one, other = found[a], found[b]
        fixed = conflict(where.scope.effects(one), where.scope.effects(other), where.scope)
        turned = not fixed and rank(other, where.scope) < rank(one, where.scope)  # type: ignore[arg-type]
        return (one, other)[place if not turned else 1 - place]

    return Made(f"number {place + 1} of `{a}` and `{b}` in their order", compute, like=(a, b)[place])
