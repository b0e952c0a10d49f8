"""Templates: Python text in which every name that is not a builtin stands for something.

In an expression a name stands for any expression; a name that is assigned stands for a variable; a name that
is a statement by itself stands for one or more statements, with a star for any number of them. The condition
of a comprehension stands for all that it has, and for True if it has none. A name that occurs twice stands
for the same thing both times.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skyt.repair.rules.analysis.syntax import operands
from skyt.repair.rules.analysis.trees import clone, shape, walk
from skyt.repair.rules.analysis.vocabulary import BUILTINS, MODULE_MEMBERS
from skyt.text.parsing import parse

Value = ast.expr | list[ast.stmt]
Found = dict[str, Value]
OUTER = "for"  # the `for`s of a comprehension before its last, where a template has one
FIXED = BUILTINS | set(MODULE_MEMBERS)


@dataclass(frozen=True)
class Template:
    """A piece of Python, as an expression or as statements."""

    text: str
    body: list[ast.stmt] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Template:
        text = textwrap.dedent(text).strip("\n")
        return cls(text, parse(text).body)

    @property
    def expression(self) -> ast.expr | None:
        """The expression, if that is all there is."""
        only = self.body[0] if len(self.body) == 1 else None
        return only.value if isinstance(only, ast.Expr) and not block_name(only) else None

    @property
    def shape(self) -> tuple[object, ...] | None:
        """What can be seen of what it matches at a glance; None where that may be anything."""
        first = self.expression or self.body[0]
        any_call = (
            isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id not in FIXED
        )
        return None if any_call or (len(self.body) == 1 and block_name(first)) else shape(first)

    @property
    def names(self) -> set[str]:
        return {n.id for n in walk(self.body) if isinstance(n, ast.Name) and n.id not in FIXED}


def block_name(s: ast.AST) -> str | None:
    """The name of a statement that stands for statements."""
    named = s.value if isinstance(s, ast.Expr) else None
    named = named.value if isinstance(named, ast.Starred) else named
    return named.id if isinstance(named, ast.Name) and named.id not in FIXED else None


def fewest(patterns: Sequence[ast.stmt]) -> int:
    """How many statements there are at least."""
    return sum(not (isinstance(p, ast.Expr) and isinstance(p.value, ast.Starred)) for p in patterns)


def build(template: Sequence[ast.stmt], found: Found) -> list[ast.stmt]:
    """The statements that a template says, with what its names stand for."""
    made: list[ast.stmt] = []
    for s in template:
        name = block_name(s)
        if name is not None:
            made += [clone(x) for x in found[name]]  # type: ignore[union-attr]
        else:
            made.append(_Filled(found).visit(clone(s)))
    return made


def fill(template: ast.expr, found: Found) -> ast.expr:
    """The expression that a template says, with what its names stand for."""
    return _Filled(found).visit(clone(template))  # type: ignore[no-any-return]


class _Filled(ast.NodeTransformer):
    def __init__(self, found: Found) -> None:
        self.found = found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in FIXED:
            return node
        new = clone(self.found[node.id])  # type: ignore[type-var]
        if hasattr(new, "ctx"):
            new.ctx = node.ctx
        return new  # type: ignore[return-value]

    def visit(self, node: ast.AST) -> Any:
        new = super().visit(node)
        if OUTER in self.found and hasattr(node, "generators"):
            new.generators = [*(clone(g) for g in self.found[OUTER]), *new.generators]  # type: ignore[union-attr]
        return new

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [c for c in node.ifs if not (isinstance(c, ast.Constant) and c.value is True)]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.values = operands(node)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse"):
            inner = getattr(node, name, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                setattr(node, name, build(inner, self.found))
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list) and not (value and isinstance(value[0], ast.stmt)):
                setattr(node, name, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
        return node
