"""What has no behaviour: annotations, demo code, unused imports, definitions and statements."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from itertools import takewhile

from skyt.repair.rules.analysis.reach import Reach
from skyt.repair.rules.analysis.scope import MODULES
from skyt.repair.rules.analysis.syntax import binds, blocks, load, read_names, stored_names, substitute
from skyt.repair.rules.analysis.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.registry import Place, block, module

FREE_MODULES = frozenset(
    [*MODULES, *("typing", "__future__", "sys", "os", "dataclasses", "abc", "unittest", "doctest", "time")]
)
IMPORTS = (ast.Import, ast.ImportFrom)


@module(
    phase=0,
    again=True,
    needs="statements that neither define nor change what the entry point reaches; methods that no caller "
    "and nothing in the program names, and special methods, which nothing in this language runs; for "
    "annotations in the body of a class: neither decorators nor bases, which may read them",
    sound="such statements cannot change a call's result; a definition that nothing names is never used; "
    "output, `__main__` and annotations are not observed",
    fires="n: int\nclass Box:\n def __init__(self, x: int):\n  self.x = x\n def unused(self):\n  return 0\n"
    "def f(n: int) -> int:\n return Box(n).x\nif __name__ == '__main__':\n print(f(1))",
    keeps="n: int\nclass Box:\n def __init__(self, x):\n  self.x = x\n def all(self):\n"
    "  return self.x + LIMIT\nLIMIT = 3\ndef g(n):\n return Box(n)\ndef f(n):\n return g(n).all()",
)
def drop_unused(context: Context) -> bool:
    """Annotations go, and what a call of the entry point does not reach: demo code, imports, definitions."""
    tree, facts = context.tree, context.facts
    dropped = [] if context.rounds else _drop_annotations(tree)  # no rule annotates anything
    if len(tree.body) > 1 and any(getattr(s, "name", "") == facts.name for s in tree.body):
        reach = Reach(tree, facts.name)
        kept = [s for s in reach.kept if not _unused_import(s, reach.needed, context)]
        dropped += [s for s in tree.body if s not in kept]
        tree.body = kept
    if context.rounds:  # the program is in the language of the rules
        dropped += _drop_methods(tree, facts.public)
    if dropped:
        context.record("drop-unused", text(dropped), "")
    return bool(dropped)


def _unused_import(s: ast.stmt, needed: set[str], context: Context) -> bool:
    known = context.rounds > 0  # an import that the rules do not know may fail
    return known and isinstance(s, ast.Import) and not {a.name for a in s.names} & needed


def _drop_annotations(tree: ast.Module) -> list[ast.AST]:
    """Take out all annotations, and give them."""
    found: list[ast.AST | None] = []
    for node in walk(tree):
        if isinstance(node, ast.arg):
            found.append(node.annotation)
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
            node.returns = None
        elif isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases or node.keywords):
            continue  # a dataclass or a named tuple makes its fields of them
        for body in blocks(node):
            if annotated := [s for s in body if isinstance(s, ast.AnnAssign)]:
                found += annotated
                kept = [s for s in body if s not in annotated or s.value is not None]
                body[:] = [_plain(s) for s in kept] or [ast.Pass()]
    return [annotation for annotation in found if annotation is not None]


def _plain(s: ast.stmt) -> ast.stmt:
    annotated = isinstance(s, ast.AnnAssign)
    return ast.Assign(targets=[s.target], value=s.value, lineno=0) if annotated else s  # type: ignore


def _drop_methods(tree: ast.Module, public: frozenset[str]) -> list[ast.AST]:
    """Take out the methods that nothing names; of the special ones only `__init__` is ever called."""
    dropped: list[ast.AST] = []
    for owner in (s for s in tree.body if isinstance(s, ast.ClassDef)):
        for m in [m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name not in public]:
            others = walk([x for x in [*tree.body, *owner.body] if x is not owner and x is not m])
            named = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in others)
            if not named and m.name != "__init__" and len(owner.body) > 1:
                owner.body.remove(m)
                dropped.append(m)
    return dropped


@module(
    phase=0,
    needs="the module is one of the standard library without effects on import",
    sound="importing such a module binds a name and does nothing else, so where it stands does not matter",
    fires="n: int >= 0\nfrom math import isqrt\nreturn isqrt(n)",
    keeps="n: int >= 0\nimport json\nreturn json.dumps(n)",
)
def imports_on_top(context: Context) -> bool:
    """`import re` inside a function, `from math import sqrt`, `import math as m`: all become `import math`
    on top."""
    tree = context.tree
    found = [s for s in walk(tree) if isinstance(s, IMPORTS)]
    nested = [s for s in found if s not in tree.body]
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    meaning = _imported(found)
    if meaning is None or not set(nested) <= {s for f in functions for s in _imported_first(f, tree)}:
        return False
    if not nested and all(isinstance(m, ast.Name) and m.id == name for name, m in meaning.items()):
        return False
    modules = read_names([*meaning.values()])
    if {binds(n) for n in walk(tree) if not isinstance(n, ast.alias)} & {*modules, *meaning}:
        return False
    before = "\n".join(("    " if s in nested else "") + text(s) for s in found)
    substitute(tree, meaning)
    owners: list[ast.Module | ast.FunctionDef] = [tree, *functions]
    for owner in owners:
        owner.body = [s for s in owner.body if s not in found] or [ast.Pass()]
    used = read_names(tree)
    top: list[ast.stmt] = [ast.Import(names=[ast.alias(name=m)]) for m in sorted(modules & used)]
    tree.body = [*top, *tree.body]
    context.record("imports-on-top", before, text(top))
    return True


def _imported(found: Sequence[ast.Import | ast.ImportFrom]) -> dict[str, ast.expr] | None:
    """What every imported name means; None where a module is not known to be without effects."""
    meaning: dict[str, ast.expr] = {}
    for s, alias in ((x, alias) for x in found for alias in x.names):
        owner, name = (alias.name, "") if isinstance(s, ast.Import) else (s.module or "", alias.name)
        if owner not in FREE_MODULES or name == "*" or getattr(s, "level", None):
            return None
        if owner != "__future__":
            member = ast.Attribute(value=load(owner), attr=name, ctx=ast.Load())
            meaning[alias.asname or alias.name] = member if name else load(owner)
    return meaning


def _imported_first(function: ast.FunctionDef, tree: ast.Module) -> list[ast.stmt]:
    """What a function imports before it does anything else, if no other function uses the names."""
    first = [*takewhile(lambda s: isinstance(s, IMPORTS), function.body)]
    others = [x for x in tree.body if x is not function]
    return [] if stored_names(first) & read_names(others) else first


@block(
    ast.Expr,
    ast.Pass,
    ast.Assign,
    needs="for a store: a local that is not live afterwards; the evaluation of a value that has effects or "
    "may raise stays",
    sound="`pass` and expressions without effects that cannot raise do nothing, and a value nobody can read "
    "need not be stored",
    fires="n: int\nn + 1\nm = n + 1\nreturn n",
    keeps="n: int\n1 // n\nm = n + 1\nreturn m",
)
def drop_idle(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Statements that do nothing go, and stores that nobody reads."""
    kept: list[ast.stmt] = []
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is not None and place.private(name) and name not in place.live_at(s):
            s = ast.Expr(value=s.value)  # type: ignore[attr-defined]
        idle = isinstance(s, ast.Pass) and len(body) > 1
        if not idle and not (isinstance(s, ast.Expr) and place.before(i).effects(s.value).total):
            kept.append(s)
    return None if len(kept) == len(body) and all(map(operator.is_, kept, body)) else kept
