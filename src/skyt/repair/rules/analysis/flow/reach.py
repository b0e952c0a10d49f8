"""Reach: which statements of a module a call of the entry point can depend on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from skyt.repair.rules.analysis.effects.vocabulary import PURE_BUILTINS, PURE_METHODS
from skyt.repair.rules.analysis.trees.syntax import read_names, stored_names
from skyt.repair.rules.analysis.trees.trees import children, walk

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
QUIET = PURE_BUILTINS | {"print"}


class Reach:
    """What the entry point needs of a module: names, and the statements that stay because of them."""

    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.tree = tree
        self.uses: dict[str, set[str]] = {}
        for s in tree.body:
            for name in {s.name} if isinstance(s, DEFINITIONS) else stored_names(s):
                self.uses.setdefault(name, set()).update(free_names(s))
        self.definitions = {s.name: s for s in tree.body if isinstance(s, DEFINITIONS)}
        self.variables = {n for s in tree.body if not isinstance(s, DEFINITIONS) for n in stored_names(s)}
        self.needed = self._closure({entry} | self._registered())
        self.called = frozenset(self.needed)
        self.stateful = any(_keeps_state(s, self) for n, s in self.definitions.items() if n in self.needed)
        while True:
            self.kept = [s for s in tree.body if not self._idle(s)]
            plain = [s for s in self.kept if not isinstance(s, (*DEFINITIONS, ast.Import, ast.ImportFrom))]
            more = self._closure(self.needed | read_names(plain))
            if more == self.needed:
                break
            self.needed = more

    def _closure(self, names: Iterable[str]) -> set[str]:
        found, pending = set[str](), sorted(names)
        while pending:
            name = pending.pop()
            if name in self.uses and name not in found:
                found.add(name)
                pending.extend(self.uses[name])
        return found

    def _registered(self) -> set[str]:
        """Definitions that something else may find: by a decorator of the program, or as a subclass."""
        own = {n for n, s in self.definitions.items() if isinstance(s, ast.FunctionDef)}
        found = {
            n for n, s in self.definitions.items() if read_names(s.decorator_list) & (own | self.variables)
        }
        hooks = {"__subclasses__", "__init_subclass__"}
        if any(getattr(n, "attr", getattr(n, "name", "")) in hooks for n in walk(self.tree)):
            found |= {n for n, s in self.definitions.items() if isinstance(s, ast.ClassDef)}
        return found

    def _idle(self, s: ast.stmt) -> bool:
        """Whether a statement neither binds nor changes what is needed."""
        if isinstance(s, DEFINITIONS):
            return s.name not in self.needed
        if isinstance(s, ast.If) and _asks_for_main(s.test) and not s.orelse:
            return True
        if not isinstance(s, ast.If | ast.Expr | ast.Assign | ast.For | ast.Assert | ast.With | ast.Pass):
            return False
        nodes = walk(s)
        if any(
            isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load) for n in nodes
        ):
            return False
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if self.needed & (bound | self.changes(nodes)):
            return False
        return not (self.stateful and any(isinstance(n, ast.Call) and not _quiet(n) for n in nodes))

    def changes(self, nodes: Iterable[ast.AST], seen: frozenset[str] = frozenset()) -> set[str]:
        """Variables of the module whose objects the calls among these nodes may change."""
        found: set[str] = set()
        for n in nodes:
            if not isinstance(n, ast.Call) or _quiet(n):
                continue
            handed = [*n.args, *(k.value for k in n.keywords)]
            if isinstance(n.func, ast.Attribute):
                handed.append(n.func.value)
            found |= {x.id for a in handed for x in walk(a) if isinstance(x, ast.Name)} & self.variables
            callee = self.definitions.get(getattr(n.func, "id", ""))
            # What the entry point does itself at every call (a table of known results) does no harm earlier.
            if isinstance(callee, ast.FunctionDef) and callee.name not in seen | self.called:
                found |= self.changes(walk(callee), seen | {callee.name}) | _stored_into(callee)
        return found


def free_names(node: ast.AST) -> set[str]:
    """Names that mean something outside this node."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, ast.Global | ast.Nonlocal):
        return set(node.names)
    inner = set().union(*(free_names(c) for c in children(node)))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        body = node.body if isinstance(node.body, list) else [node.body]
        declared = {x for n in walk(body) if isinstance(n, ast.Global | ast.Nonlocal) for x in n.names}
        own = ({a.arg for a in walk(node.args) if isinstance(a, ast.arg)} | stored_names(body)) - declared
        outside = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        outside += getattr(node, "decorator_list", [])
        return (inner - own).union(*(free_names(d) for d in outside))
    if isinstance(node, COMPREHENSIONS):
        own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        return (inner - own) | free_names(node.generators[0].iter)
    return inner


def _asks_for_main(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and "__name__" in read_names(test)
    )


def _quiet(n: ast.Call) -> bool:
    if isinstance(n.func, ast.Attribute):
        return n.func.attr in PURE_METHODS
    return isinstance(n.func, ast.Name) and n.func.id in QUIET


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _stored_into(function: ast.FunctionDef) -> set[str]:
    """Names of the module that a function rebinds, or into whose objects it stores."""
    found = {x for n in walk(function) if isinstance(n, ast.Global) for x in n.names}
    for n in walk(function):
        if isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load):
            found.add(_root(n))
    return found


def _keeps_state(s: ast.stmt, reach: Reach) -> bool:
    """Whether a definition remembers earlier calls otherwise than in a table of results."""
    variables = reach.variables & free_names(s)
    for n in walk(s):
        if isinstance(n, ast.Global):
            return True
        stores = isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
        if stores and _root(n) in {*reach.definitions, "cls"}:
            return True
        counts = isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Subscript)
        if counts and _root(n.target) in variables:  # type: ignore[attr-defined]
            return True
    return False


class Outside:
    """What each function of the program reads that is not its own, calls included."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef]) -> None:
        self.names: dict[str, set[str]] = {n: free_names(f) for n, f in functions.items()}
        self.attributes = {
            n
            for n, f in functions.items()
            if any(isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Load) for x in walk(f))
        }

    def of(self, name: str) -> tuple[set[str], bool]:
        """(names of variables, whether attributes of objects may be read) for a call of this function."""
        seen, pending, reads, attributes = set[str](), [name], set[str](), False
        while pending:
            current = pending.pop()
            if current in self.names and current not in seen:
                seen.add(current)
                attributes = attributes or current in self.attributes
                pending.extend(self.names[current])
                reads |= self.names[current]
        return reads - set(self.names), attributes
