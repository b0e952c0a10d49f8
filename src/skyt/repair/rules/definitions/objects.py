"""Objects: attributes read back at once, small public methods, methods that nobody calls."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.language.words import makes_text
from skyt.repair.rules.analysis.trees.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module

SHOWN = frozenset({"__str__", "__repr__"})


@module(
    needs="a method that no caller and nothing in the program names; for special methods: objects of the "
    "class are only used for their attributes",
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
            if m.name in SHOWN and not any(makes_text(n) for n in outside):
                used = False
            elif m.name.startswith("__"):
                used = m.name == "__init__" or _used_as_value(owner, outside)
            else:
                used = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in outside)
            if used:
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
    selves = {n.args.args[0].arg for n in functions if n in owner.body}
    mentions = sum(isinstance(n, ast.Name) and n.id in selves for n in outside)
    accesses = sum(
        isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in selves
        for n in outside
    )
    return mentions != accesses
