"""The language of the rules: the part of Python in which their idea of what runs when is true.

Everything else is refused, and a program that uses it keeps its text. So the analysis never meets a caught
exception, a generator that is held, a closure that changes, a decorator, reflection, an operator of a class
of the program, or a value that is called: it need not be right about them. Whoever wants a new construct in
has to enter it here, and to say in the tables of effects what it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from skyt.repair.rules.analysis.language.definitions import Checker
from skyt.repair.rules.analysis.language.words import NODES, REFLECTING_MODULES, REFLECTION, special
from skyt.repair.rules.analysis.trees.trees import walk


def reflective(tree: ast.AST) -> str | None:
    """What in a program looks at the program itself, demo code included; None if nothing does."""
    for n in walk(tree):
        match n:
            case ast.Name(id=name) if name in REFLECTION or (special(name) and name != "__name__"):
                return name
            case ast.Attribute(attr=name) if special(name):
                return f".{name}"
            case ast.Import() | ast.ImportFrom():
                names = {getattr(n, "module", None) or "", *(a.name for a in n.names)}
                if names & REFLECTING_MODULES:
                    return f"import {max(names)}"
    return None


def before_cleaning(kept: Iterable[ast.stmt]) -> str | None:
    """What cleaning (annotations, imports, names of builtins) must not touch."""
    kept = list(kept)
    fields = {id(s) for c in kept if isinstance(c, ast.ClassDef) for s in c.body}
    for n in walk(kept):
        if isinstance(n, ast.AnnAssign):
            if n.value is None and id(n) not in fields:
                return "an annotation without a value"
        elif n.__class__ not in NODES and not isinstance(n, ast.ImportFrom):
            return n.__class__.__name__
    return None


def beyond(tree: ast.Module) -> str | None:
    """What in a program is outside the language; None if it is inside."""
    nodes = walk(tree)
    for n in nodes:
        if n.__class__ not in NODES:
            return n.__class__.__name__
    return Checker(tree, nodes).run()
