"""Reach: which statements of a module a call of the entry point can depend on."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping

from skyt.repair.rules.analysis.syntax import read_names, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, SCOPES, children, walk, walk_shallow

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IDLE = (ast.If, ast.Expr, ast.Assign, ast.For, ast.Assert, ast.With, ast.Pass)  # if they touch nothing needed


class Reach:
    """What the entry point needs of a module: names, and the statements that stay because of them.

    What a needed function does to a variable of the module need not be asked: a program with a function that
    keeps something there is outside the language.
    """

    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.uses: dict[str, set[str]] = {}
        for s in tree.body:
            for name in {s.name} if isinstance(s, DEFINITIONS) else stored_names(s):
                self.uses.setdefault(name, set()).update(free_names(s))
        self.definitions = {s.name for s in tree.body if isinstance(s, DEFINITIONS)}
        self.kept = tree.body
        self.needed, more = set[str](), closure({entry}, self.uses)
        while more != self.needed:
            self.needed = more
            self.kept = [s for s in tree.body if not self._idle(s)]
            plain = [s for s in self.kept if not isinstance(s, (*DEFINITIONS, ast.Import, ast.ImportFrom))]
            registered = {s.name for s in self.kept if isinstance(s, DEFINITIONS)}
            more = closure(self.needed | read_names(plain) | registered, self.uses)

    def _idle(self, s: ast.stmt) -> bool:
        """Whether a statement neither binds nor can change what is needed."""
        match s:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                parents = [*getattr(s, "bases", ()), *getattr(s, "keywords", ())]
                seen = read_names(s.decorator_list) & self.uses.keys()
                return s.name not in self.needed and not seen | (read_names(parents) & self.definitions)
            case ast.If(test=ast.Compare(ops=[ast.Eq(), *_]) as test, orelse=[]):
                if "__name__" in read_names(test):
                    return True
        targets = [n for n in walk(s) if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if not isinstance(s, IDLE) or any(isinstance(n, ast.Attribute | ast.Subscript) for n in targets):
            return False
        bound = {n.id for n in targets if isinstance(n, ast.Name)}
        handled = closure(free_names(s), self.uses, without=self.needed & self.definitions)
        return not self.needed & (bound | (handled - self.definitions))


def closure(names: Iterable[str], uses: Mapping[str, set[str]], without: Container[str] = ()) -> set[str]:
    """These names and all that they use, as far as that is known."""
    found, pending = set[str](), [*names]
    while pending:
        name = pending.pop()
        if name in uses and name not in found and name not in without:
            found.add(name)
            pending.extend(uses[name])
    return found


def free_names(node: ast.AST) -> set[str]:
    """Names that mean something outside this node."""
    found, own, outside = set[str](), set[str](), list[ast.AST]()
    for n in walk_shallow(children(node) if node.__class__ in SCOPES else node):
        if isinstance(n, ast.Global | ast.Nonlocal):
            found.update(n.names)
        elif n.__class__ in SCOPES:
            found |= free_names(n)
        elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            found.add(n.id)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        body = node.body if isinstance(node.body, list) else [node.body]
        declared = {x for n in walk(body) if isinstance(n, ast.Global | ast.Nonlocal) for x in n.names}
        own = ({a.arg for a in walk(node.args) if isinstance(a, ast.arg)} | stored_names(body)) - declared
        outside = [node.args, *getattr(node, "decorator_list", [])]
    elif isinstance(node, COMPREHENSIONS):
        own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        outside = [node.generators[0].iter]
    return (found - own).union(*map(free_names, outside))
