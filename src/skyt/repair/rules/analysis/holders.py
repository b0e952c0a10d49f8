"""Holders: a container under one local name, or under one private attribute, and everything done with it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.functions import FunctionInfo, use_of
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import children, same, walk
from skyt.repair.rules.engine.context import Context


@dataclass
class Holder:
    """Where a container is made and used. No other way leads to it while all its uses are harmless."""

    where: ast.AST
    info: FunctionInfo | None  # of the function for a local; None for an attribute
    made: list[ast.Assign]
    uses: list[ast.expr]
    parents: dict[int, ast.AST] = field(repr=False)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.parents.get(id(node))

    @property
    def is_local(self) -> bool:
        return self.info is not None

    def scope(self, node: ast.AST, context: Context) -> Scope:
        """The scope of the function around a node, without conditions."""
        if self.info is not None:
            return Scope(context.program, self.info)
        here: ast.AST | None = node
        while here is not None and id(here) not in context.program.functions:
            here = self.parent(here)
        return Scope(context.program, context.program.functions[id(here)] if here is not None else None)

    def use(self, node: ast.expr) -> str:
        return use_of(node, self.parents)


def holders(context: Context, makes: Callable[[ast.expr, Scope], bool]) -> Iterator[Holder]:
    """Locals and private attributes whose every value is made by an expression of `collections` that `makes`
    knows."""
    if not any(isinstance(s, ast.Import) and s.names[0].name == "collections" for s in context.tree.body):
        return
    nodes = walk(context.tree)
    made = [n for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1]
    made = [n for n in made if makes(n.value, Scope(context.program, None))]
    if not made:
        return
    for info in context.program.functions.values():
        inside = walk(info.node)
        names = {n.targets[0].id for n in made if n in inside and isinstance(n.targets[0], ast.Name)}
        for name in sorted(names):
            found = _local(name, info, inside, made)
            if found is not None:
                yield found
    parents = {id(c): p for p in nodes for c in children(p)}
    for attr in sorted({n.targets[0].attr for n in made if isinstance(n.targets[0], ast.Attribute)}):
        found = _attribute(attr, nodes, made, parents, context)
        if found is not None:
            yield found


def _local(name: str, info: FunctionInfo, inside: list[ast.AST], made: list[ast.Assign]) -> Holder | None:
    nested = [n for n in inside if isinstance(n, ast.FunctionDef | ast.ClassDef) and n is not info.node]
    if any(isinstance(n, ast.Name) and n.id == name for outer in nested for n in walk(outer)):
        return None
    if any(isinstance(n, ast.arg) and n.arg == name for n in inside):
        return None
    mentions = [n for n in inside if isinstance(n, ast.Name) and n.id == name]
    stores = [n for n in mentions if not isinstance(n.ctx, ast.Load)]
    own = [n for n in made if n.targets[0] in stores]
    if len(stores) != len(own):
        return None
    parents = {id(c): p for p in inside for c in children(p)}
    return Holder(info.node, info, own, [n for n in mentions if isinstance(n.ctx, ast.Load)], parents)


def _attribute(
    attr: str, nodes: list[ast.AST], made: list[ast.Assign], parents: dict[int, ast.AST], context: Context
) -> Holder | None:
    if attr in context.facts.public or attr in {n.name for n in nodes if isinstance(n, ast.FunctionDef)}:
        return None
    mentions = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == attr]
    stores = [n for n in mentions if not isinstance(n.ctx, ast.Load)]
    own = [n for n in made if n.targets[0] in stores]
    if len(stores) != len(own) or not all(isinstance(n.value, ast.Name) for n in mentions):
        return None
    uses: list[ast.expr] = [n for n in mentions if isinstance(n.ctx, ast.Load)]
    holder = Holder(context.tree, None, own, uses, parents)
    for n in mentions:
        info = holder.scope(n, context).info
        owner = info.owner if info is not None else None
        if info is None or owner is None or not info.arguments:
            return None
        if not same(n.value, ast.Name(id=info.arguments[0])) or info.arguments[0] in info.assigned:
            return None
    return holder
