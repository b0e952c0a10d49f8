"""Objects: attributes read back at once, small public methods, methods that nobody calls."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module


@module(
    needs="a method that no caller and nothing in the program names; or a special method, which nothing in "
    "this language runs",
    sound="a method that is never called does nothing",
    fires=(
        "n: int",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def __repr__(self):\n  return 'Box'\n"
        " def unused(self):\n  return 0\ndef f(n):\n return Box(n).x",
    ),
    keeps=(
        "n: int",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def __repr__(self):\n  return 'Box'\n"
        "def f(n):\n return str(Box(n))",
    ),
)
def drop_unused_methods(context: Context) -> bool:
    tree = context.tree
    for owner in tree.body:
        if not isinstance(owner, ast.ClassDef):
            continue
        for m in owner.body:
            if not isinstance(m, ast.FunctionDef) or m.name in context.facts.public or len(owner.body) == 1:
                continue
            outside = walk([x for x in [*tree.body, *owner.body] if x is not owner and x is not m])
            special = m.name.startswith("__")  # in this language none but `__init__` is ever run
            called = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in outside)
            used = m.name == "__init__" if special else called
            if used:
                continue
            context.record("drop-unused-methods", text(m), "")
            owner.body = [x for x in owner.body if x is not m]
            return True
    return False
