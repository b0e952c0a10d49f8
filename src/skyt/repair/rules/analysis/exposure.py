"""Exposure: functions that may be called from places that the program does not show as calls of them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from skyt.repair.rules.analysis.functions import FunctionInfo
from skyt.repair.rules.analysis.trees.trees import children, walk

TRANSPARENT = frozenset({"lru_cache", "cache", "wraps", "staticmethod", "classmethod", "abstractmethod"})


class Exposure:
    """`open`: functions that may get arguments from anywhere; `ambiguous`: names of functions that also mean
    something else, or whose decorator may make something else of them."""

    def __init__(self, tree: ast.Module, functions: Iterable[FunctionInfo]) -> None:
        nodes = walk(tree)
        functions = list(functions)
        parents = {id(c): p for p in nodes for c in children(p)}
        called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        handed = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}
        attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute) and id(n) not in called}
        self.ambiguous = self._ambiguous(nodes, functions)
        classes = [n for n in nodes if isinstance(n, ast.ClassDef)]
        loose = _loose_classes(nodes, classes, parents)
        self.open: set[int] = set()
        for info in functions:
            name = info.node.name
            if info.owner is None:
                exposed = name in handed or name in self.ambiguous
            elif name == "__init__":
                exposed = info.owner.name in loose
            else:
                special = name.startswith("__") and name.endswith("__")
                exposed = special or name in attributes or not _transparent(info.node)
            if exposed:
                self.open.add(id(info.node))

    @staticmethod
    def _ambiguous(nodes: list[ast.AST], functions: list[FunctionInfo]) -> frozenset[str]:
        methods = {id(i.node) for i in functions if i.owner is not None}
        bound: Counter[str] = Counter()
        for n in nodes:
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
                bound[n.id] += 1
            elif isinstance(n, ast.arg):
                bound[n.arg] += 1
            elif isinstance(n, ast.FunctionDef | ast.ClassDef) and id(n) not in methods:
                bound[n.name] += 1
            elif isinstance(n, ast.alias):
                bound[n.asname or n.name] += 1
            elif isinstance(n, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and n.name:
                bound[n.name] += 1
        private = [i.node for i in functions if i.owner is None]
        return frozenset(f.name for f in private if bound[f.name] > 1 or not _transparent(f))


def _transparent(function: ast.FunctionDef) -> bool:
    """Whether calling the name after decoration is calling the function."""
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name not in TRANSPARENT:
            return False
    return True


def _loose_classes(
    nodes: list[ast.AST], classes: list[ast.ClassDef], parents: dict[int, ast.AST]
) -> set[str]:
    """Classes that may be instantiated otherwise than by a call of their name."""
    names = {c.name for c in classes}
    if any(isinstance(n, ast.Attribute) and n.attr == "__class__" for n in nodes) or any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Call) for n in nodes
    ):
        return names
    found = {b.id for c in classes for b in c.bases if isinstance(b, ast.Name)}
    found |= {c.name for c in classes if c.decorator_list or _classmethods(c)}
    for n in nodes:
        if not (isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)):
            continue
        parent = parents.get(id(n))
        asked = isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in {
            "isinstance",
            "issubclass",
        }
        direct = isinstance(parent, ast.Call) and parent.func is n
        if not (asked or direct or isinstance(parent, ast.Attribute)):
            found.add(n.id)
    return found


def _classmethods(owner: ast.ClassDef) -> bool:
    return any(
        isinstance(d, ast.Name) and d.id == "classmethod"
        for m in owner.body
        if isinstance(m, ast.FunctionDef)
        for d in m.decorator_list
    )
