"""Templates: Python text in which every name that is not a builtin stands for something.

In an expression a name stands for any expression; a name that is assigned stands for a variable; a name that
is a statement by itself stands for one or more statements. A name that occurs twice stands for the same thing
both times.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.effects.vocabulary import BUILTINS, MODULE_MEMBERS
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.text.parsing import parse

Value = ast.expr | list[ast.stmt]
Found = dict[str, Value]
FIXED = BUILTINS | set(MODULE_MEMBERS)
SKIPPED = frozenset({"ctx", "type_comment", "kind", "lineno", "is_async"})


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
        return only.value if isinstance(only, ast.Expr) and not _block_name(only) else None

    @property
    def shape(self) -> tuple[object, ...] | None:
        """What can be seen of what it matches at a glance; None where that may be anything."""
        first = self.expression or self.body[0]
        return None if len(self.body) == 1 and _block_name(first) else shape(first)

    @property
    def names(self) -> set[str]:
        return {n.id for n in walk(self.body) if isinstance(n, ast.Name) and n.id not in FIXED}


def _block_name(s: ast.AST) -> str | None:
    """The name of a statement that stands for statements."""
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Name) and s.value.id not in FIXED:
        return s.value.id
    return None


FIELDS: dict[type, tuple[str, ...]] = {
    cls: tuple(f for f in cls._fields if f not in SKIPPED)
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.AST)
}


def shape(node: ast.AST) -> tuple[object, ...]:
    """What can be seen of a node at a glance; equal for a pattern and all that it matches."""
    kind = node.__class__
    if isinstance(node, ast.Compare):
        return kind, tuple(op.__class__ for op in node.ops)
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return kind, node.op.__class__
    if isinstance(node, ast.Call):
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        return kind, name, len(node.args)
    if isinstance(node, ast.If | ast.For | ast.While):
        return kind, bool(node.orelse)
    return (kind,)


def match(pattern: object, node: object, found: Found) -> bool:
    """Whether a piece of program is what a pattern says; what its names stand for goes into `found`."""
    kind = pattern.__class__
    if kind is not ast.Name and kind in FIELDS:
        if kind is not node.__class__:
            return False
        return all(match(getattr(pattern, f, None), getattr(node, f, None), found) for f in FIELDS[kind])
    if isinstance(pattern, ast.Name) and pattern.id not in FIXED:
        if not isinstance(node, ast.expr):
            return False
        stored = not isinstance(pattern.ctx, ast.Load) and not pattern.id.startswith("target")
        if stored and not isinstance(node, ast.Name):
            return False
        return _bind(pattern.id, node, found)
    if isinstance(pattern, ast.Name):
        return isinstance(node, ast.Name) and node.id == pattern.id
    if isinstance(pattern, list):
        return isinstance(node, list) and _match_list(pattern, node, found)
    return type(pattern) is type(node) and pattern == node


def _bind(name: str, value: Value, found: Found) -> bool:
    if name in found:
        return same(found[name], value)
    found[name] = value
    return True


def _match_list(patterns: Sequence[object], nodes: Sequence[object], found: Found) -> bool:
    names = [_block_name(p) if isinstance(p, ast.stmt) else None for p in patterns]
    many = [i for i, n in enumerate(names) if n is not None]
    if not many:
        pairs = zip(patterns, nodes, strict=False)
        return len(patterns) == len(nodes) and all(match(p, n, found) for p, n in pairs)
    at = many[0]
    after = len(patterns) - at - 1
    end = len(nodes) - after
    if len(many) > 1 or end <= at:
        return False
    block = [n for n in nodes[at:end] if isinstance(n, ast.stmt)]
    outer = [*zip(patterns[:at], nodes[:at], strict=True), *zip(patterns[at + 1 :], nodes[end:], strict=True)]
    return _bind(names[at] or "", block, found) and all(match(p, n, found) for p, n in outer)


def build(template: Sequence[ast.stmt], found: Found) -> list[ast.stmt]:
    """The statements that a template says, with what its names stand for."""
    made: list[ast.stmt] = []
    for s in template:
        name = _block_name(s)
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
        if isinstance(new, ast.Name):
            new.ctx = node.ctx
        return new  # type: ignore[return-value]

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
