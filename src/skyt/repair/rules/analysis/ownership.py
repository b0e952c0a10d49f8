"""Ownership: containers that a function made itself and that nobody else can reach while it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.vocabulary import OWNERS
from skyt.repair.rules.analysis.trees.trees import children, walk
from skyt.repair.rules.analysis.values.types import Type, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.program import FunctionInfo


def owned_names(info: FunctionInfo) -> Iterator[str]:
    """Local containers that this function made itself and that nobody else can reach while it runs."""
    made = [
        name
        for name, values in info.assigned.items()
        if name not in info.arguments
        and all(v is not None and (_is_fresh(v) or _new_list(v, info.env.get(name))) for v in values)
    ]
    if not made:
        return
    escaping: set[str] = set()
    parents = {id(c): p for p in walk(info.node) for c in children(p)}
    for node in walk(info.node):
        if not (node.__class__ is ast.Name and node.ctx.__class__ is ast.Load and node.id in made):
            continue
        if node.id in info.captured or not _harmless_use(node, parents):
            escaping.add(node.id)
    yield from (name for name in made if name not in escaping)


def _harmless_use(node: ast.Name, parents: dict[int, ast.AST]) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.Attribute):
        outer = parents.get(id(parent))
        return isinstance(outer, ast.Call) and outer.func is parent
    if isinstance(parent, ast.Subscript):
        return parent.value is node or True
    if isinstance(parent, ast.Call):
        if isinstance(parent.func, ast.Attribute):  # text.join(pieces)
            return parent.func.attr == "join" and isinstance(parent.func.value, ast.Constant)
        return isinstance(parent.func, ast.Name) and parent.func.id in OWNERS and node in parent.args
    if isinstance(parent, ast.For | ast.comprehension):
        return parent.iter is node
    return isinstance(
        parent,
        ast.Return
        | ast.Compare
        | ast.BoolOp
        | ast.UnaryOp
        | ast.BinOp
        | ast.If
        | ast.While
        | ast.FormattedValue,
    ) and not (isinstance(parent, ast.BoolOp) and not boolean_place(parent, parents))


def boolean_place(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.If | ast.While):
        return parent.test is node
    if isinstance(parent, ast.BoolOp):
        return boolean_place(parent, parents)
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def _new_list(value: ast.expr, t: Type) -> bool:
    """Whether an expression of type list makes a new one: a slice, a sum, or a method that always does."""
    if kind(t) != "list":
        return False
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Slice)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Attribute) and value.func.attr in {"split", "splitlines", "copy"}
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Mult)


def _is_fresh(value: ast.expr) -> bool:
    """Whether evaluating this makes a new container."""
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.SetComp | ast.DictComp):
        return True
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Name):
            return value.func.id in {"list", "dict", "set", "sorted"}
        return (
            isinstance(value.func, ast.Attribute)
            and isinstance(value.func.value, ast.Name)
            and value.func.value.id == "collections"
        )
    return isinstance(value, ast.BinOp) and isinstance(value.left, ast.List | ast.ListComp)
