"""Computed pieces: what a name of the after side stands for that is not in the program as it is.

    rewrite("strict-integers", ("a <= k", "a < m"), made={"m": folded("k + 1")}, …)

The order of evaluation is checked with them too. A piece that is computed from others is, unless it says
otherwise, something new in the place of something dropped, and both must go unnoticed. One that evaluates
what a template of the matched pieces evaluates, in its order, names that template (`like`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.evaluate import GiveUpError, returned
from skyt.repair.rules.analysis.ranking import linear, rank
from skyt.repair.rules.analysis.syntax import count_reads, int_value, load, number, own_breaks, read_names
from skyt.repair.rules.analysis.trees import clone, same, walk
from skyt.repair.rules.patterns.template import Found, Value, value
from skyt.repair.rules.patterns.when import Where


@dataclass(frozen=True)
class Made:
    """A piece that is computed; None where it cannot be, and then the rule does not apply."""

    words: str
    compute: Callable[[Found, Where], Value | None]
    like: str = ""  # a template with the same evaluations, in the same order, and the same truth


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
        turned = rank(other, where.scope) < rank(one, where.scope)  # type: ignore[arg-type]
        if turned and conflict(where.scope.effects(one), where.scope.effects(other), where.scope):
            turned = False
        return (one, other)[place if not turned else 1 - place]

    return Made(f"number {place + 1} of `{a}` and `{b}` in their order", compute, like=(a, b)[place])


def fresh(base: str) -> Made:
    """A variable that occurs nowhere in the program."""
    return Made("a new variable", lambda found, where: load(where.name(base, found)), like="None")


def replacing(block: str, *pairs: tuple[str, str]) -> Made:
    """A block or expression with variables, or lookups of one in another, replaced:
    `replacing("body", ("s[i]", "c"))`. It must not assign any of the variables."""

    def compute(found: Found, where: Where) -> Value | None:
        olds, news = ([value(template, **found) for template in side] for side in zip(*pairs, strict=True))
        given, inside, names = found[block], walk(found[block]), read_names([*olds, *news])
        if any(isinstance(n, ast.arg) and n.arg in names for n in inside):
            return None  # inside a lambda the name is another
        bound = [n for n in inside if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if any(n.id in names if isinstance(n, ast.Name) else any(same(n, o) for o in olds) for n in bound):
            return None
        new = {id(n): new for n in inside for old, new in zip(olds, news, strict=True) if same(n, old)}
        if not isinstance(given, list):
            return clone(given, new)
        return [clone(s, new) for s in given] if new or not isinstance(olds[0], ast.Subscript) else None

    words = " and ".join(f"`{new}` for `{old}`" for old, new in pairs)
    return Made(f"`{block}` with {words}", compute, like=block)


def returning(block: str, result: str) -> Made:
    """A block that returns what follows its loop in the place of each `break`: nothing if nothing follows."""

    def compute(found: Found, where: Where) -> list[ast.stmt]:
        body: Any = found[block]
        new = dict.fromkeys(map(id, own_breaks(body)), ast.Return(value=found.get(result)))  # type: ignore[arg-type]
        return [clone(s, new) for s in body]

    return Made(f"`{block}` with `return {result}` for `break`", compute, like=block)


def looks_back(index: str, block: str, start: str) -> Made:
    """How far below an index a block that has it only in subscripts looks, at most as far as its start."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        name = found[index].id  # type: ignore[union-attr]
        looked = [n.slice for n in walk(found[block]) if isinstance(n, ast.Subscript)]
        forms = [form for at in looked if (form := linear(at, where.scope)) is not None]
        offsets = [k for atoms, k in forms if [(getattr(a, "id", ""), n) for a, n in atoms] == [(name, 1)]]
        by = min(int_value(found[start]) or 0, -min(offsets, default=0))  # type: ignore[arg-type]
        return number(by) if by > 0 and len(offsets) == count_reads(found[block], name) else None

    return Made(f"how far `{block}` looks below `{index}`, which it has in subscripts only", compute)
