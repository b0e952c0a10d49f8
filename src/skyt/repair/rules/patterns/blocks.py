"""Computed pieces for statements: new variables, and blocks in which something stands for something else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.trees.syntax import (
    LOOPS,
    blocks,
    count_reads,
    int_value,
    load,
    number,
    read_names,
)
from skyt.repair.rules.analysis.trees.trees import NESTED, clone, same, walk
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.pieces import first, pieces, value

if TYPE_CHECKING:
    from skyt.repair.rules.patterns.conditions import Where
    from skyt.repair.rules.patterns.template import Found, Value


def fresh(base: str) -> Made:
    """A variable that occurs nowhere in the program."""
    return Made("a new variable", lambda found, where: load(where.name(base, found)), like="None")


def replacing(block: str, *pairs: tuple[str, str]) -> Made:
    """A block or expression with variables, or lookups of one in another, replaced:
    `replacing("body", ("s[i]", "c"))`. It must not assign any of the variables."""

    def compute(found: Found, where: Where) -> Value | None:
        olds, news = ([value(template, **found) for template in side] for side in zip(*pairs, strict=True))
        bound = [n for n in walk(found[block]) if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        names = read_names([*olds, *news])
        if any(n.id in names if isinstance(n, ast.Name) else any(same(n, o) for o in olds) for n in bound):
            return None
        given = found[block]
        inner: list[Any] = [clone(s) for s in (given if isinstance(given, list) else [given])]
        for old, new in zip(olds, news, strict=True):
            change = _Replaced(old, new)
            inner = [change.visit(s) for s in inner]
            if isinstance(given, list) and isinstance(old, ast.Subscript) and not change.found:
                return None
        return inner if isinstance(given, list) else inner[0]

    words = " and ".join(f"`{new}` for `{old}`" for old, new in pairs)
    return Made(f"`{block}` with {words}", compute, like=block)


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new, self.found = old, new, False

    def visit(self, node: ast.AST) -> ast.AST:
        if not same(node, self.old):
            return self.generic_visit(node)
        self.found = True
        return clone(self.new)


def returning(block: str, result: str) -> Made:
    """A block that returns what follows its loop in the place of each `break`: nothing if nothing follows."""

    def compute(found: Found, where: Where) -> list[ast.stmt]:
        inner = [clone(s) for s in found[block]]  # type: ignore[union-attr]
        _replace_breaks(inner, ast.Return(value=found.get(result)))  # type: ignore[arg-type]
        return inner

    return Made(f"`{block}` with `return {result}` for `break`", compute, like=block)


def _replace_breaks(body: list[ast.stmt], new: ast.stmt) -> None:
    for i, s in enumerate(body):
        if isinstance(s, ast.Break):
            body[i] = clone(new)
        elif isinstance(s, LOOPS):
            _replace_breaks(s.orelse, new)
        elif not isinstance(s, NESTED):
            for inner in blocks(s):
                _replace_breaks(inner, new)


def looks_back(index: str, block: str, start: str) -> Made:
    """How far below an index a block that has it only in subscripts looks, at most as far as its start."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        name = found[index].id  # type: ignore[union-attr]
        slices = [n.slice for n in walk(found[block]) if isinstance(n, ast.Subscript)]
        offsets = [o for o in (_offset(s, name) for s in slices) if o is not None]
        by = min(int_value(found[start]) or 0, -min(offsets, default=0))  # type: ignore[arg-type]
        return number(by) if by > 0 and len(offsets) == count_reads(found[block], name) else None

    return Made(f"how far `{block}` looks below `{index}`, which it has in subscripts only", compute)


def _offset(node: ast.expr, name: str) -> int | None:
    """k of `name + k`."""
    if isinstance(node, ast.Name) and node.id == name:
        return 0
    p = first(node, "i + k", "i - k", i=name)
    k = int_value(p["k"]) if p is not None else None
    return None if k is None else k if pieces("i + k", node) else -k
