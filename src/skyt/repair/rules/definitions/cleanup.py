"""What has no behaviour: annotations, demo code, unused imports, definitions and statements."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence

from skyt.repair.rules.analysis.effects import mutates_receiver
from skyt.repair.rules.analysis.reach import Reach
from skyt.repair.rules.analysis.scope import MODULES
from skyt.repair.rules.analysis.syntax import load, read_names, stored_names, substitute
from skyt.repair.rules.analysis.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.flow import private
from skyt.repair.rules.registry import Place, block, module

FREE_MODULES = frozenset(
    [*MODULES, *("typing", "__future__", "sys", "os", "dataclasses", "abc", "unittest", "doctest", "time")]
)


@module(
    phase=0,
    again=True,
    needs="statements that neither define nor change what the entry point reaches; methods that no caller "
    "and nothing in the program names, and special methods, which nothing in this language runs; for "
    "annotations in the body of a class: neither decorators nor bases, which may read them",
    sound="such statements cannot change a call's result; a definition that nothing names is never used; "
    "output, `__main__` and annotations are not observed",
    fires=(
        "n: int",
        "class Box:\n def __init__(self, x: int):\n  self.x = x\n def unused(self):\n  return 0\n"
        "def f(n: int) -> int:\n return Box(n).x\nif __name__ == '__main__':\n print(f(1))",
    ),
    keeps=(
        "n: int",
        "class Box:\n def __init__(self, x):\n  self.x = x\n def all(self):\n  return self.x + LIMIT\n"
        "LIMIT = 3\ndef g(n):\n return Box(n)\ndef f(n):\n return g(n).all()",
    ),
)
def drop_unused(context: Context) -> bool:
    """Annotations go, and what a call of the entry point does not reach: demo code, imports, definitions."""
    tree, facts = context.tree, context.facts
    headers = "" if context.rounds else _headers(tree)  # no rule annotates anything
    annotated = not context.rounds and _drop_annotations(tree)
    if annotated:
        context.record("drop-unused", headers, _headers(tree))
    dropped: list[ast.stmt] = []
    entries = [s for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef) and s.name == facts.name]
    if entries and not _nothing_beside(entries[0], tree):
        reach = Reach(tree, facts.name)
        dropped = [s for s in tree.body if s not in reach.kept or _unused_import(s, reach.needed, context)]
        tree.body = [s for s in tree.body if s not in dropped]
    if context.rounds:  # the program is in the language of the rules
        dropped += _drop_methods(tree, facts.public)
    if dropped:
        context.record("drop-unused", text(dropped), "")
    return annotated or bool(dropped)


def _headers(tree: ast.Module) -> str:
    return "\n".join(s.split("\n")[0] for s in map(text, tree.body) if s.startswith("def "))


def _nothing_beside(entry: ast.stmt, tree: ast.Module) -> bool:
    """Whether a module is its entry point and imports that it uses: most are, and Reach need not ask."""
    read = read_names(entry)
    return all(
        s is entry or (isinstance(s, ast.Import) and {a.name for a in s.names} <= read) for s in tree.body
    )


def _unused_import(s: ast.stmt, needed: set[str], context: Context) -> bool:
    known = context.rounds > 0  # an import that the rules do not know may fail
    return known and isinstance(s, ast.Import) and not {a.name for a in s.names} & needed


def _drop_annotations(tree: ast.Module) -> bool:
    changed = False
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef):
            changed, node.returns = changed or node.returns is not None, None
            for argument in walk(node.args):
                if isinstance(argument, ast.arg):
                    changed, argument.annotation = changed or argument.annotation is not None, None
        if isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases or node.keywords):
            continue  # a dataclass or a named tuple makes its fields of them
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and any(isinstance(s, ast.AnnAssign) for s in body):
                changed = True
                setattr(node, name, [new for s in body for new in _plain(s)] or [ast.Pass()])
    return changed


def _plain(s: ast.stmt) -> list[ast.stmt]:
    if not isinstance(s, ast.AnnAssign):
        return [s]
    return [] if s.value is None else [ast.Assign(targets=[s.target], value=s.value, lineno=0)]


def _drop_methods(tree: ast.Module, public: frozenset[str]) -> list[ast.stmt]:
    """Take out the methods that are never called; of the special ones only `__init__` ever is."""
    dropped: list[ast.stmt] = []
    for owner in (s for s in tree.body if isinstance(s, ast.ClassDef)):
        for m in [m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name not in public]:
            others = [x for x in [*tree.body, *owner.body] if x is not owner and x is not m]
            named = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in walk(others))
            used = m.name == "__init__" if m.name.startswith("__") else named
            if not used and len(owner.body) > 1:
                owner.body = [x for x in owner.body if x is not m]
                dropped.append(m)
    return dropped


@module(
    phase=0,
    needs="the module is one of the standard library without effects on import",
    sound="importing such a module binds a name and does nothing else, so where it stands does not matter",
    fires=("n: int >= 0", "from math import isqrt\nreturn isqrt(n)"),
    keeps=("n: int >= 0", "import json\nreturn json.dumps(n)"),
)
def imports_on_top(context: Context) -> bool:
    """`import re` inside a function, `from math import sqrt`, `import math as m`: all become `import math`
    on top."""
    tree = context.tree
    found = [s for s in walk(tree) if isinstance(s, ast.Import | ast.ImportFrom)]
    nested = [s for s in found if s not in tree.body]
    meaning = _imported(found)
    if meaning is None or not all(_imported_first(s, tree) for s in nested):
        return False
    if not nested and all(isinstance(m, ast.Name) and m.id == name for name, m in meaning.items()):
        return False
    bound = {n.id for n in walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    modules = read_names([*meaning.values()])
    if bound & (modules | set(meaning)):
        return False
    before = "\n".join(("    " if s in nested else "") + text(s) for s in found)
    substitute(tree, meaning)
    owners: list[ast.Module | ast.FunctionDef] = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    for owner in [tree, *owners]:
        owner.body = [s for s in owner.body if s not in found] or [ast.Pass()]
    used = read_names(tree)
    top: list[ast.stmt] = [ast.Import(names=[ast.alias(name=m)]) for m in sorted(modules) if m in used]
    tree.body = [*top, *tree.body]
    context.record("imports-on-top", before, text(top))
    return True


def _imported(found: Sequence[ast.Import | ast.ImportFrom]) -> dict[str, ast.expr] | None:
    """What every imported name means; None where a module is not known to be without effects."""
    meaning: dict[str, ast.expr] = {}
    for s in found:
        for alias in s.names:
            owner = alias.name if isinstance(s, ast.Import) else s.module or ""
            if owner not in FREE_MODULES or alias.name == "*" or (isinstance(s, ast.ImportFrom) and s.level):
                return None
            if isinstance(s, ast.Import):
                meaning[alias.asname or owner] = load(owner)
            elif owner != "__future__":
                member = ast.Attribute(value=load(owner), attr=alias.name, ctx=ast.Load())
                meaning[alias.asname or alias.name] = member
    return meaning


def _imported_first(s: ast.stmt, tree: ast.Module) -> bool:
    """Whether a function imports before it does anything else, and no other function uses the name."""
    bound = stored_names(s)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and s in function.body:
            before = function.body[: function.body.index(s)]
            others = [x for x in tree.body if x is not function]
            first = all(isinstance(x, ast.Import | ast.ImportFrom) for x in before)
            return first and not bound & read_names(others)
    return False


@block(
    ast.Expr,
    ast.Pass,
    ast.Assign,
    needs="for a store: a local that is not live afterwards; the evaluation of a value that has effects or "
    "may raise stays",
    sound="`pass` and expressions without effects that cannot raise do nothing, and a value nobody can read "
    "need not be stored",
    fires=("n: int", "n + 1\nm = n + 1\nreturn n"),
    keeps=("n: int", "1 // n\nm = n + 1\nreturn m"),
)
def drop_idle(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Statements that do nothing go, and stores that nobody reads."""
    kept: list[ast.stmt] = []
    for i, s in enumerate(body):
        name, rest = simple_target(s), s
        if name is not None and private(name, place) and name not in place.live_at(s):
            rest = ast.Expr(value=s.value)  # type: ignore[attr-defined]
        if isinstance(rest, ast.Expr):
            changes = isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and mutates_receiver(s.value)
            idle = not changes and place.before(i).effects(rest.value).total
        else:
            idle = isinstance(s, ast.Pass) and len(body) > 1
        if not idle:
            kept.append(rest)
    return None if len(kept) == len(body) and all(map(operator.is_, kept, body)) else kept
