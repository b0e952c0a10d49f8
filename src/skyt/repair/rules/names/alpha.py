"""Names: what no caller can see is called by the order in which it appears."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.bindings import own_nodes
from skyt.repair.rules.analysis.trees.syntax import Renaming, local_functions, stored_names
from skyt.repair.rules.analysis.trees.trees import walk
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module


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
    private, foreign = _private_attributes(tree, context)
    attributes = _Appearance(set(), private, foreign)
    if private:
        attributes.visit(tree)
    fields = {name: f"a{i}" for i, name in enumerate(attributes.attributes)}
    shown: dict[str, str] = {}
    shown |= _rename_globals(tree, kept)
    for owner, function in local_functions(tree):
        shown |= {f"{function.name}:{k}": v for k, v in _rename_locals(tree, owner, function, kept).items()}
    if fields:
        _Rename({}, fields, foreign).visit(tree)
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


def _rename_globals(tree: ast.Module, kept: set[str]) -> dict[str, str]:
    """Functions, classes and variables of the module: g0, g1, …"""
    names = {s.name for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    names |= {n for s in tree.body if isinstance(s, ast.Assign) for n in stored_names(s)}
    shadowed = {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    for _, function in local_functions(tree):
        shadowed |= {n for s in function.body for n in stored_names(s)}
    if not names - kept - shadowed:
        return {}
    order = _Appearance(names - kept - shadowed, set())
    order.visit(tree)
    return _numbered(tree, tree, order, "g")


def _rename_locals(
    tree: ast.Module, owner: ast.ClassDef | None, function: ast.FunctionDef, kept: set[str]
) -> dict[str, str]:
    """Locals and parameters of one function (functions nested in it included): v0, v1, …"""
    names = {n.id for n in walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names |= {n.arg for n in walk(function) if isinstance(n, ast.arg)}
    names |= {
        n.name for n in walk(function) if isinstance(n, ast.FunctionDef | ast.ClassDef) and n is not function
    }
    order = _Appearance(names - kept, set())
    for part in (function.args, *function.body):
        order.visit(part)
    return _numbered(tree, function, order, "v")


def _numbered(
    tree: ast.Module, where: ast.Module | ast.FunctionDef, order: _Appearance, letter: str
) -> dict[str, str]:
    taken = {n.id for n in walk(where) if isinstance(n, ast.Name)} - set(order.found)
    if isinstance(where, ast.Module):
        taken |= {n.name for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)} - set(
            order.found
        )
    numbers = iter(f"{letter}{i}" for i in range(10_000) if f"{letter}{i}" not in taken)
    renaming = {name: next(numbers) for name in order.found}
    if isinstance(where, ast.Module):
        _Rename(renaming, {}).visit(where)
    else:
        where.args = _Rename(renaming, {}).visit(where.args)
        where.body = [_Rename(renaming, {}).visit(s) for s in where.body]
    return renaming


def _private_attributes(tree: ast.Module, context: Context) -> tuple[set[str], set[int]]:
    """Attributes that the program's own classes define; and places where a name like theirs (`items`) means
    that of a built-in type."""
    defined = {n.attr for n in walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            defined |= {m.name for m in owner.body if isinstance(m, ast.FunctionDef)}
    defined = {a for a in defined if not (a.startswith("__") and a.endswith("__"))}
    defined -= context.facts.public
    foreign: set[int] = set()
    for name in sorted(defined & _BUILTIN_ATTRIBUTES):
        elsewhere = _foreign(name, context)
        if elsewhere is None:
            defined.discard(name)
        else:
            foreign |= elsewhere
    return defined, foreign


def _foreign(name: str, context: Context) -> set[int] | None:
    """The uses of an attribute that belong to built-in types; None if some use cannot be told."""
    found: set[int] = set()
    seen: set[int] = set()
    for info in context.program.functions.values():
        for n in own_nodes(info.node):
            if not (isinstance(n, ast.Attribute) and n.attr == name):
                continue
            seen.add(id(n))
            t = kind(context.program.type_of(n.value, info))
            if not t or t == "none":
                return None
            if not t.startswith("object:"):
                found.add(id(n))
    everywhere = {id(n) for n in walk(context.tree) if isinstance(n, ast.Attribute) and n.attr == name}
    return found if seen == everywhere else None


_BUILTIN_ATTRIBUTES = frozenset(
    name for t in (list, dict, set, str, int, tuple, float, type, object) for name in dir(t)
) | frozenset(["popleft", "appendleft", "move_to_end", "maxlen", "group", "groups", "default_factory"])


class _Appearance(ast.NodeVisitor):
    """The order in which private names and attributes appear in the text."""

    def __init__(self, names: set[str], attributes: set[str], foreign: set[int] | None = None) -> None:
        self.names, self.private_attributes, self.foreign = names, attributes, foreign or set()
        self.found: dict[str, None] = {}
        self.attributes: dict[str, None] = {}

    def _see(self, name: str) -> None:
        if name in self.names:
            self.found.setdefault(name)

    def visit_Name(self, node: ast.Name) -> None:
        self._see(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        self._see(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in self.private_attributes:
            self.attributes.setdefault(node.name)
        self._see(node.name)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._see(node.name)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        if node.attr in self.private_attributes and id(node) not in self.foreign:
            self.attributes.setdefault(node.attr)


class _Rename(Renaming):
    """Renames variables and private attributes."""

    def __init__(
        self, names: dict[str, str], attributes: dict[str, str], foreign: set[int] | None = None
    ) -> None:
        super().__init__(names)
        self.attributes, self.foreign = attributes, foreign or set()

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # noqa: N802 - the name says what it visits
        if id(node) not in self.foreign:
            node.attr = self.attributes.get(node.attr, node.attr)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # noqa: N802 - the name says what it visits
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                item.name = self.attributes.get(item.name, item.name)
        return super().visit_ClassDef(node)
