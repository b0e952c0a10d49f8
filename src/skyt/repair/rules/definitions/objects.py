"""Objects: attributes read back at once, small public methods, methods that nobody calls."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects
from skyt.repair.rules.analysis.trees.syntax import count_reads, load, substitute
from skyt.repair.rules.analysis.trees.trees import clone, text, walk
from skyt.repair.rules.context import Context
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.names.inline import undisturbed
from skyt.repair.rules.registry import Place, block, module

SHOWN = frozenset({"__str__", "__repr__"})


@block(
    ast.Assign,
    needs="a local that is stored in an attribute at once; nothing changes that attribute before the local's "
    "last use",
    sound="reading the attribute gives the value that was stored in it",
)
def read_attribute_back(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`t = e; self.x = t; return t` is `self.x = e; return self.x`."""
    info = place.scope.info
    if info is None:
        return None
    for i in range(len(body) - 2):
        s, t = body[i], body[i + 1]
        name = simple_target(s)
        if name is None or not isinstance(t, ast.Assign) or not private(name, place):
            continue
        target = t.targets[0]
        if len(t.targets) != 1 or not (
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        ):
            continue
        if not (isinstance(t.value, ast.Name) and t.value.id == name) or target.value.id == name:
            continue
        census, rest = place.context.census(info.node), body[i + 2 :]
        uses = count_reads(rest, name)
        if census.stores[name] != 1 or not uses or census.reads[name] != uses + 1:
            continue
        owner = place.scope.type_of(target.value)
        if not (isinstance(owner, str) and owner.startswith("object:")):
            continue
        seen = Effects(reads={target.value.id}, heap_reads={"." + target.attr})
        if not undisturbed(rest, name, seen, place.scope):
            continue
        back = ast.Attribute(value=load(target.value.id), attr=target.attr, ctx=ast.Load())
        first = ast.Assign(targets=[target], value=s.value, lineno=0)  # type: ignore[attr-defined]
        return [*body[:i], first, *(substitute(clone(x), {name: back}) for x in rest)]
    return None


@module(
    needs="a method that no caller and nothing in the program names; for special methods: objects of the "
    "class are only used for their attributes",
    sound="a method that is never called does nothing",
)
def drop_unused_methods(context: Context) -> bool:
    tree = context.tree
    for owner in tree.body:
        if not isinstance(owner, ast.ClassDef) or owner.bases or owner.decorator_list or owner.keywords:
            continue
        for m in owner.body:
            if not isinstance(m, ast.FunctionDef) or m.name in context.facts.public or len(owner.body) == 1:
                continue
            outside = walk([x for x in [*tree.body, *owner.body] if x is not owner and x is not m])
            if m.name in SHOWN and not any(_makes_text(n) for n in outside):
                used = False
            elif m.name.startswith("__"):
                used = m.name == "__init__" or _used_as_value(owner, outside)
            else:
                used = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in outside)
            if used or any(
                isinstance(n, ast.Name) and n.id in {"getattr", "hasattr", "vars", "dir"} for n in outside
            ):
                continue
            context.record("drop-unused-methods", text(m), "")
            owner.body = [x for x in owner.body if x is not m]
            return True
    return False


def _used_as_value(owner: ast.ClassDef, outside: list[ast.AST]) -> bool:
    """Whether the program does anything with an object of the class but read and write its attributes."""
    if any(isinstance(n, ast.Name) and n.id == owner.name for n in outside):
        return True
    functions = [n for n in outside if isinstance(n, ast.FunctionDef)]
    if any(n.decorator_list or not n.args.args for n in functions if n in owner.body):
        return True
    selves = {n.args.args[0].arg for n in functions if n in owner.body}
    mentions = sum(isinstance(n, ast.Name) and n.id in selves for n in outside)
    accesses = sum(
        isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in selves
        for n in outside
    )
    return mentions != accesses


def _makes_text(n: ast.AST) -> bool:
    if isinstance(n, ast.Name):
        return n.id in {"str", "repr", "format", "print", "ascii", "map"}
    if isinstance(n, ast.Attribute):
        return n.attr in {"format", "join", "__str__", "__repr__"}
    return isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
