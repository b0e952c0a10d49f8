"""What has no behaviour: annotations, docstrings, demo code, prints, unused imports and definitions."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import mutates_receiver
from skyt.repair.rules.analysis.flow.reach import Reach
from skyt.repair.rules.analysis.scope import MODULES
from skyt.repair.rules.analysis.trees.syntax import load, read_names, stored_names
from skyt.repair.rules.analysis.trees.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import Place, block, module

FREE_MODULES = frozenset(
    [*MODULES, *("typing", "__future__", "sys", "os", "dataclasses", "abc", "unittest", "doctest", "time")]
)


@module(
    phase=0,
    needs="for annotations in the body of a class: neither decorators nor bases, which may read them",
    sound="annotations of parameters, results and locals are not evaluated for their value by any caller "
    "in the "
    "contract's observation (result, exception, arguments)",
    fires=("n: int", "def f(n: int) -> int:\n x: int = n\n return x"),
    keeps=("n: int", "return n"),
)
def drop_annotations(context: Context) -> bool:
    changed = False
    before = [s.split("\n")[0] for s in map(text, context.tree.body) if s.startswith("def ")]
    for node in walk(context.tree):
        if isinstance(node, ast.FunctionDef):
            if node.returns is not None:
                changed, node.returns = True, None
            for argument in walk(node.args):
                if isinstance(argument, ast.arg) and argument.annotation is not None:
                    changed, argument.annotation = True, None
        if isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases or node.keywords):
            continue  # a dataclass or a named tuple makes its fields of them
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and any(isinstance(s, ast.AnnAssign) for s in body):
                changed = True
                kept = [_plain(s) for s in body]
                setattr(node, name, [s for s in kept if s is not None] or [ast.Pass()])
    if changed:
        after = [s.split("\n")[0] for s in map(text, context.tree.body) if s.startswith("def ")]
        context.record("drop-annotations", "\n".join(before), "\n".join(after))
    return changed


def _plain(s: ast.stmt) -> ast.stmt | None:
    if not isinstance(s, ast.AnnAssign):
        return s
    return None if s.value is None else ast.Assign(targets=[s.target], value=s.value, lineno=0)


@module(
    phase=0,
    needs="the entry point's name; statements that neither define nor change what the entry point reaches",
    sound="such statements cannot change a call's result; output and `__main__` are not observed",
    fires=("n: int", "def f(n):\n return n\nif __name__ == '__main__':\n print(f(1))"),
    keeps=("n: int", "LIMIT = 3\ndef f(n):\n return n + LIMIT"),
)
def drop_demo_code(context: Context) -> bool:
    tree, facts = context.tree, context.facts
    defined = {s.name for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    if facts.name not in defined or len(tree.body) == 1:
        return False
    kept = Reach(tree, facts.name).kept
    dropped = [s for s in tree.body if s not in kept]
    if dropped:
        context.record("drop-demo-code", text(dropped), "")
        tree.body = kept
    return bool(dropped)


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
    finder = _Imports()
    finder.visit(tree)
    if finder.unsafe or not finder.changed:
        return False
    bound = {n.id for n in walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    if bound & (finder.modules | set(finder.aliases) | set(finder.members)):
        return False
    found = [s for s in walk(tree) if isinstance(s, ast.Import | ast.ImportFrom)]
    nested = [s for s in found if s not in tree.body]
    if not all(_imported_first(s, tree) for s in nested):
        return False
    if not (nested or finder.aliases or finder.members):
        return False
    before = "\n".join(("    " if s in nested else "") + text(s) for s in found)
    remover = _ImportRemover(finder)
    remover.visit(tree)
    used = read_names(tree)
    top: list[ast.stmt] = [ast.Import(names=[ast.alias(name=m)]) for m in sorted(finder.modules) if m in used]
    tree.body = [*top, *tree.body]
    context.record("imports-on-top", before, text(top))
    return True


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


class _Imports(ast.NodeVisitor):
    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.aliases: dict[str, str] = {}
        self.members: dict[str, tuple[str, str]] = {}
        self.unsafe = self.changed = False

    def visit_Import(self, node: ast.Import) -> None:
        self.changed = True
        for alias in node.names:
            self.modules.add(alias.name)
            self.unsafe = self.unsafe or alias.name not in FREE_MODULES
            if alias.asname:
                self.aliases[alias.asname] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.changed = True
        name = node.module or ""
        self.unsafe = self.unsafe or name not in FREE_MODULES or node.level > 0
        for alias in node.names:
            self.unsafe = self.unsafe or alias.name == "*"
            if name != "__future__":
                self.modules.add(name)
                self.members[alias.asname or alias.name] = (name, alias.name)


class _ImportRemover(ast.NodeTransformer):
    def __init__(self, found: _Imports) -> None:
        self.found = found

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.found.aliases:
            return load(self.found.aliases[node.id])
        if node.id in self.found.members:
            owner, name = self.found.members[node.id]
            return ast.Attribute(value=load(owner), attr=name, ctx=ast.Load())
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body and not isinstance(node, ast.Module):
            body.append(ast.Pass())
        return node


@module(
    needs="nothing",
    sound="a definition that nothing reachable from the entry point names is never used",
    fires=("n: int", "import math\ndef f(n):\n return n"),
    keeps=("n: int", "def g(n):\n return n\ndef f(n):\n return g(n)"),
)
def drop_unused_definitions(context: Context) -> bool:
    tree, facts = context.tree, context.facts
    entries = [s for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef) and s.name == facts.name]
    if not entries or _nothing_beside(entries[0], tree):
        return False
    needed = Reach(tree, facts.name).needed
    dropped = [
        s
        for s in tree.body
        if (isinstance(s, ast.FunctionDef | ast.ClassDef) and s.name not in needed)
        or (isinstance(s, ast.Import) and not ({a.name for a in s.names} & needed))
    ]
    if dropped:
        context.record("drop-unused-definitions", text(dropped), "")
        tree.body = [s for s in tree.body if s not in dropped]
    return bool(dropped)


def _nothing_beside(entry: ast.stmt, tree: ast.Module) -> bool:
    """Whether a module is its entry point and imports that it uses: most are, and Reach need not ask."""
    read = read_names(entry)
    return all(
        s is entry or (isinstance(s, ast.Import) and {a.name for a in s.names} <= read) for s in tree.body
    )


def _changes(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and mutates_receiver(node) is not None


@block(
    ast.Expr,
    ast.Pass,
    needs="nothing",
    sound="`pass`, constants and other pure, total expressions as statements do nothing",
    fires=("n: int", "n + 1\nreturn n"),
    keeps=("n: int", "1 // n\nreturn n"),
)
def drop_idle_statements(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    kept = [
        s
        for i, s in enumerate(body)
        if not (
            (isinstance(s, ast.Pass) and len(body) > 1)
            or (isinstance(s, ast.Expr) and not _changes(s.value) and place.before(i).effects(s.value).total)
        )
    ]
    return kept if len(kept) != len(body) else None
