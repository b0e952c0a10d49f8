"""Reach: which statements of a module a call of the entry point can depend on."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping

from skyt.repair.rules.analysis.syntax import read_names, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, SCOPES, children, walk
from skyt.repair.rules.analysis.vocabulary import BUILTINS, PURE_METHODS

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BINDING = frozenset({ast.Global, ast.Nonlocal, *SCOPES})  # what gives names a meaning of their own
QUIET = BUILTINS | {"print"}


class Reach:
    """What the entry point needs of a module: names, and the statements that stay because of them.

    What a needed function does to a variable of the module need not be asked: a program with a function that
    keeps something there is outside the language.
    """

    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.tree = tree
        self.uses: dict[str, set[str]] = {}
        for s in tree.body:
            for name in {s.name} if isinstance(s, DEFINITIONS) else stored_names(s):
                self.uses.setdefault(name, set()).update(free_names(s))
        self.definitions = {s.name for s in tree.body if isinstance(s, DEFINITIONS)}
        self.needed = self._closure({entry})
        while True:
            self.kept = [s for s in tree.body if not self._idle(s)]
            plain = [s for s in self.kept if not isinstance(s, (*DEFINITIONS, ast.Import, ast.ImportFrom))]
            registered = {s.name for s in self.kept if isinstance(s, DEFINITIONS)}
            more = self._closure(self.needed | read_names(plain) | registered)
            if more == self.needed:
                break
            self.needed = more

    def _closure(self, names: Iterable[str], without: Container[str] = ()) -> set[str]:
        found, pending = set[str](), sorted(names)
        while pending:
            name = pending.pop()
            if name in self.uses and name not in found and name not in without:
                found.add(name)
                pending.extend(self.uses[name])
        return found

    def _idle(self, s: ast.stmt) -> bool:
        """Whether a statement neither binds nor changes what is needed."""
        match s:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                parents = [*getattr(s, "bases", ()), *getattr(s, "keywords", ())]
                seen = read_names(s.decorator_list) & self.uses.keys()
                return s.name not in self.needed and not seen | (read_names(parents) & self.definitions)
            case ast.If(test=ast.Compare(ops=[ast.Eq(), *_]) as test, orelse=[]) if "__name__" in read_names(
                test
            ):
                return True
        if not isinstance(s, ast.If | ast.Expr | ast.Assign | ast.For | ast.Assert | ast.With | ast.Pass):
            return False
        nodes = walk(s)
        targets = [n for n in nodes if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if any(isinstance(n, ast.Attribute | ast.Subscript) for n in targets):
            return False
        bound = {n.id for n in targets if isinstance(n, ast.Name)}
        own = self.needed & self.definitions
        handled = self._closure(free_names(s), without=own) if any(map(_changes, nodes)) else set()
        return not self.needed & (bound | (handled - self.definitions))


def free_names(node: ast.AST) -> set[str]:
    """Names that mean something outside this node."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        return set(node.names)
    if not any(n.__class__ in BINDING for n in walk(node)):
        return read_names(node)
    inner = set[str]().union(*map(free_names, children(node)))
    own: set[str] = set()
    outside: list[ast.AST] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        body = node.body if isinstance(node.body, list) else [node.body]
        declared = {x for n in walk(body) if isinstance(n, ast.Global | ast.Nonlocal) for x in n.names}
        own = ({a.arg for a in walk(node.args) if isinstance(a, ast.arg)} | stored_names(body)) - declared
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        outside = [*defaults, *getattr(node, "decorator_list", [])]
    elif isinstance(node, COMPREHENSIONS):
        own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        outside = [node.generators[0].iter]
    return (inner - own).union(*map(free_names, outside))


def _changes(n: ast.AST) -> bool:
    """Whether a node is a call that may change what it reaches."""
    if not isinstance(n, ast.Call):
        return False
    if isinstance(n.func, ast.Attribute):
        return n.func.attr not in PURE_METHODS
    return not (isinstance(n.func, ast.Name) and n.func.id in QUIET)


class Outside:
    """What each function of the program reads that is not its own, calls included."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef]) -> None:
        self.names: dict[str, set[str]] = {n: free_names(f) for n, f in functions.items()}
        self.attributes = {
            n for n, f in functions.items() if any(isinstance(x, ast.Attribute) for x in walk(f))
        }

    def of(self, name: str) -> tuple[set[str], bool]:
        """(names of variables, whether attributes of objects may be read) for a call of this function."""
        seen, pending = set[str](), [name]
        while pending:
            current = pending.pop()
            if current not in seen:
                seen.add(current)
                pending.extend(self.names.get(current, ()))
        return seen - self.names.keys(), bool(seen & self.attributes)
