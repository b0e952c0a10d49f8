"""Names: what no caller can see is called by the order in which it appears."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import (
    Renaming,
    bound_anywhere,
    local_functions,
    own_nodes,
    stored_names,
)
from skyt.repair.rules.analysis.trees import in_order, walk
from skyt.repair.rules.analysis.types import kind
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
BUILTIN_ATTRIBUTES = frozenset(
    name for t in (list, dict, set, str, int, tuple, float, type, object) for name in dir(t)
) | frozenset(["popleft", "appendleft", "move_to_end", "maxlen", "group", "groups", "default_factory"])


@module(
    phase=2,
    needs="public names; for parameters: calls by position",
    sound="a name that only the program itself uses can be any name that is not taken",
    fires=("n: int", "m = n\nreturn m"),
    keeps=("n: int", "def f(v0):\n return v0"),
)
def rename_private(context: Context) -> bool:
    """Locals, parameters, private functions, classes and attributes are numbered in order of appearance."""
    tree = context.tree
    kept = _kept_names(tree, context)
    fields = {name: f"a{i}" for i, name in enumerate(_private_attributes(tree, context))}
    shown = _numbered([tree], _globals(tree) - kept, "g")
    for _, function in local_functions(tree):
        inside = [function.args, *function.body]
        found = _numbered(inside, bound_anywhere(inside) - kept, "v")
        shown |= {f"{function.name}:{k}": v for k, v in found.items()}
    if fields:
        _Attributes(fields).visit(tree)
    shown |= {"." + k: v for k, v in fields.items()}
    if all(k.split(":")[-1].lstrip(".") == v for k, v in shown.items()):
        return False
    context.record("rename-private", " ".join(shown), " ".join(shown.values()))
    return True


def _kept_names(tree: ast.Module, context: Context) -> set[str]:
    """Names that callers use, and keywords of calls (a parameter may be meant)."""
    kept = {context.facts.name, "__name__"}  # the methods of a class are attributes, not variables
    kept |= {n.arg for n in walk(tree) if isinstance(n, ast.keyword) and n.arg}
    if not context.facts.positional:
        kept |= {a for i in context.program.functions.values() if i.public for a in i.arguments}
    return kept


def _globals(tree: ast.Module) -> set[str]:
    """Functions, classes and variables of the module that no function hides."""
    names = {s.name for s in tree.body if isinstance(s, DEFINITIONS)}
    names |= {n for s in tree.body if isinstance(s, ast.Assign) for n in stored_names(s)}
    hidden = {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    for _, function in local_functions(tree):
        hidden |= stored_names(function.body)
    return names - hidden


def _name(n: ast.AST) -> str:
    """The variable, parameter, function or class that a node names."""
    return getattr(n, "id", "") or (n.arg if isinstance(n, ast.arg) else getattr(n, "name", ""))


def _numbered(where: list[ast.AST], names: set[str], letter: str) -> dict[str, str]:
    """Rename these names inside: v0, v1, … in order of appearance, without those that are taken."""
    seen = [_name(n) for x in where for n in in_order(x) if not isinstance(n, ast.alias)]
    taken = set(seen) - names
    numbers = iter(f"{letter}{i}" for i in range(10_000) if f"{letter}{i}" not in taken)
    renaming = {name: next(numbers) for name in dict.fromkeys(seen) if name in names}
    for x in where:
        Renaming(renaming).visit(x)
    return renaming


def _private_attributes(tree: ast.Module, context: Context) -> list[str]:
    """Attributes that the program's own classes define and that mean nothing else, in order of appearance."""
    nodes = in_order(tree)
    defined = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            defined |= {m.name for m in owner.body if isinstance(m, ast.FunctionDef)}
    defined -= {a for a in defined if a.startswith("__") and a.endswith("__")} | context.facts.public
    defined -= {a for a in defined & BUILTIN_ATTRIBUTES if not _of_objects(a, nodes, context)}
    seen = [n.attr if isinstance(n, ast.Attribute) else getattr(n, "name", "") for n in nodes]
    return [a for a in dict.fromkeys(seen) if a in defined]


def _of_objects(name: str, nodes: list[ast.AST], context: Context) -> bool:
    """Whether every use of an attribute is surely of an object of the program's classes."""
    own = {
        id(n)
        for info in context.program.functions.values()
        for n in own_nodes(info.node)
        if isinstance(n, ast.Attribute) and kind(context.program.type_of(n.value, info)).startswith("object:")
    }
    return all(id(n) in own for n in nodes if isinstance(n, ast.Attribute) and n.attr == name)


class _Attributes(ast.NodeTransformer):
    """Renames private attributes and methods."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.names.get(node.attr, node.attr)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                item.name = self.names.get(item.name, item.name)
        return self.generic_visit(node)
