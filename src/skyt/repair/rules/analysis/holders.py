"""Holders: a container under one local name, or under one private attribute, and everything done with it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.program import FunctionInfo, use_of
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import children, walk
from skyt.repair.rules.engine import Context


@dataclass
class Holder:
    """Where a container is made and used. No other way leads to it while all its uses are harmless."""

    where: ast.AST
    is_local: bool
    made: list[ast.Assign]
    uses: list[ast.expr]
    parents: dict[int, ast.AST] = field(repr=False)

    def parent(self, node: ast.AST | None) -> ast.AST | None:
        return self.parents.get(id(node))

    def scope(self, node: ast.AST, context: Context) -> Scope:
        """The scope of the function around a node, without conditions."""
        return Scope(context.program, _around(node, self.parents, context))

    def use(self, node: ast.expr) -> str:
        return use_of(node, self.parents)


def _around(node: ast.AST, parents: dict[int, ast.AST], context: Context) -> FunctionInfo | None:
    here: ast.AST | None = node
    while here is not None and id(here) not in context.program.functions:
        here = parents.get(id(here))
    return context.program.functions[id(here)] if here is not None else None


def holders(context: Context, makes: Callable[[ast.expr, Scope], bool]) -> Iterator[Holder]:
    """Locals and private attributes whose every value is made by an expression of `collections` that `makes`
    knows."""
    if not any(isinstance(s, ast.Import) and s.names[0].name == "collections" for s in context.tree.body):
        return
    nodes, scope = walk(context.tree), Scope(context.program, None)
    made = [n for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1 and makes(n.value, scope)]
    parents = {id(c): p for p in nodes if made for c in children(p)}
    for target in [s.targets[0] for s in made]:
        info = _around(target, parents, context)
        if info is None:
            continue
        mentions: list[ast.expr]
        if isinstance(target, ast.Name):
            where: ast.AST = info.node
            mentions = [n for n in walk(where) if isinstance(n, ast.Name) and n.id == target.id]
            private = target.id not in info.arguments and None not in info.assigned[target.id]
            private = private and all(_around(n, parents, context) is info for n in mentions)
        elif isinstance(target, ast.Attribute):
            where, taken = context.tree, {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
            mentions = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == target.attr]
            private = target.attr not in context.facts.public | taken
            private = private and all(_of_itself(n, _around(n, parents, context)) for n in mentions)
        else:
            continue
        stores = [n for n in mentions if not isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
        own = [s for s in made if s.targets[0] in stores]
        if private and len(stores) == len(own):
            uses = [n for n in mentions if n not in stores]
            yield Holder(where, isinstance(target, ast.Name), own, uses, parents)


def _of_itself(node: ast.expr, info: FunctionInfo | None) -> bool:
    """Whether this is an attribute of the object that a method is called on."""
    if info is None or info.owner is None or info.arguments[:1] != [getattr(node.value, "id", "")]:  # type: ignore[attr-defined]
        return False
    return info.arguments[0] not in info.assigned
