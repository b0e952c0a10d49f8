"""Bound names: rules take for granted that reading a local never fails. Programs where it may are left
alone."""

from __future__ import annotations

import ast
import builtins

from skyt.repair.rules.analysis.effects.vocabulary import PURE_BUILTINS
from skyt.repair.rules.analysis.liveness import Liveness
from skyt.repair.rules.analysis.trees.bindings import bound_anywhere
from skyt.repair.rules.analysis.trees.syntax import local_functions, stored_names
from skyt.repair.rules.analysis.trees.trees import walk

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


def unbound_name(tree: ast.Module) -> str | None:
    """A name that may be read before it has a value, or that nobody defines; None if there is none."""
    known = BUILTINS | {n for s in tree.body for n in stored_names(s)}
    for _, function in local_functions(tree):
        bound = _bound(function)
        stored = {n for s in function.body for n in stored_names(s)}
        arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
        early = (Liveness(function, strict=True).entry & stored) - arguments
        if early:
            return sorted(early)[0]
        for node in walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known | bound:
                return node.id
    return None


HOOKS = frozenset(
    {"__getattr__", "__setattr__", "__getattribute__", "__delattr__", "__new__", "__class_getitem__"}
)


def unsupported(tree: ast.Module) -> str | None:
    """What makes reading an attribute run code, so that the rules' idea of effects would be wrong; None if
    nothing."""
    bound = set(bound_anywhere(n for n in walk(tree) if not isinstance(n, ast.FunctionDef)))
    bound |= {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}
    for node in walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in bound & PURE_BUILTINS
        ):
            return f"a program that calls its own {node.func.id}"
        if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
            return node.name
        if isinstance(node, ast.FunctionDef) and any(_is_property(d) for d in node.decorator_list):
            return f"property {node.name}"
        if isinstance(node, ast.AsyncFunctionDef):
            return f"coroutine {node.name}"
    return None


def _is_property(decorator: ast.expr) -> bool:
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name in {"property", "setter", "cached_property", "getter", "deleter"}


def _bound(function: ast.FunctionDef) -> set[str]:
    """Everything bound anywhere inside, nested functions and comprehensions included."""
    found: set[str] = set()
    for n in walk(function):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            found.add(n.id)
        elif isinstance(n, ast.arg):
            found.add(n.arg)
        elif isinstance(n, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            found.add(n.name or "")
        elif isinstance(n, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).split(".")[0] for a in n.names}
    return found
