"""Exposure: functions that may be called from places that the program does not show as calls of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from skyt.repair.rules.analysis.functions import FunctionInfo
from skyt.repair.rules.analysis.trees.trees import walk


def exposed(tree: ast.Module, functions: Iterable[FunctionInfo]) -> frozenset[int]:
    """Functions that may get arguments from anywhere: handed to `map` or as a key, and special methods."""
    nodes = walk(tree)
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    handed = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}
    found = set[int]()
    for info in functions:
        name = info.node.name
        special = name.startswith("__") and name != "__init__"
        if (info.owner is None and name in handed) or (info.owner is not None and special):
            found.add(id(info.node))
    return frozenset(found)
