"""Hidden effects: what a call, an operator or a loop does without saying so at that place.

Iterators are used up by whoever goes through them; a `defaultdict` grows when it is read; special methods run
where an operator stands; a function reads variables of the function around it.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping, Sequence

from skyt.repair.rules.analysis.effects.vocabulary import MUTATORS
from skyt.repair.rules.analysis.reach import free_names
from skyt.repair.rules.analysis.trees.trees import children, walk

ATTRIBUTES = ".*"  # a heap root: any attribute of any object
EAGER = frozenset(
    ["sum", "any", "all", "list", "tuple", "set", "sorted", "min", "max", "dict", "frozenset", "next", "str"]
)
EAGER_METHODS = frozenset(["join", "extend", "update", "deque", "Counter", "OrderedDict", "prod", "reduce"])
LAZY = frozenset(["iter", "map", "filter", "zip", "reversed", "enumerate", "open"])
PLAIN_SPECIALS = frozenset(["__init__", "__repr__", "__str__", "__enter__", "__exit__", "__post_init__"])


def lazy_generators(nodes: Sequence[ast.AST]) -> list[ast.GeneratorExp]:
    """Generator expressions that are not used up at once where they stand, among all nodes of a function."""
    if not any(n.__class__ is ast.GeneratorExp for n in nodes):
        return []
    parents = {id(c): p for p in nodes for c in children(p)}
    return [n for n in nodes if isinstance(n, ast.GeneratorExp) and not _used_up(n, parents)]


def captured_late(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that a generator expression reads later than it is made."""
    return {x.id for g in lazy_generators(nodes) for x in walk(g) if isinstance(x, ast.Name)}


def _used_up(node: ast.AST, parents: Mapping[int, ast.AST], loops: bool = False) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.Call) and parent.func is not node:
        if isinstance(parent.func, ast.Name):
            if parent.func.id in EAGER:
                return True
            return parent.func.id in LAZY and _used_up(parent, parents, loops)
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in EAGER_METHODS
    if isinstance(parent, ast.comprehension):
        return parent.iter is node
    if isinstance(parent, ast.Compare):
        return isinstance(parent.ops[0], ast.In | ast.NotIn)
    return loops and isinstance(parent, ast.For) and parent.iter is node


class Hidden:
    """What a program as a whole may do unseen."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = walk(tree)
        parents = {id(c): p for p in nodes for c in children(p)}
        generators = {n.name for n in nodes if isinstance(n, ast.FunctionDef) and _yields(n)}
        self.iterators = any(
            _makes_iterator(n, generators) and not _used_up(n, parents, loops=True) for n in nodes
        )
        named = {n.id if isinstance(n, ast.Name) else getattr(n, "attr", "") for n in nodes}
        specials = [
            m
            for n in nodes
            if isinstance(n, ast.ClassDef)
            for m in n.body
            if isinstance(m, ast.FunctionDef) and m.name.startswith("__") and m.name not in PLAIN_SPECIALS
        ]
        names = {m.name for m in specials}
        self.grows = bool({"defaultdict", "ChainMap"} & named or "__missing__" in names)
        self.specials = bool(specials) or "dataclass" in named
        self.changing = any(_changes(m) for m in specials)


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in walk(function))


def _makes_iterator(n: ast.AST, generators: set[str]) -> bool:
    if isinstance(n, ast.GeneratorExp):
        return True
    if not isinstance(n, ast.Call):
        return False
    if isinstance(n.func, ast.Name):
        return n.func.id in LAZY or n.func.id in generators
    owner = n.func.value if isinstance(n.func, ast.Attribute) else None
    return isinstance(n.func, ast.Attribute) and (
        n.func.attr in generators
        or n.func.attr == "finditer"
        or (isinstance(owner, ast.Name) and owner.id == "itertools")
    )


def _changes(method: ast.FunctionDef) -> bool:
    for n in walk(method):
        if isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load):
            return True
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in MUTATORS:
            return True
    return False


def hands_over(node: ast.Call, functions: Mapping[str, object], pure: Container[str]) -> bool:
    """Whether a call is given something to call that may have effects: a function of the program, a method
    that changes its object."""
    for a in (*node.args, *(k.value for k in node.keywords)):
        if isinstance(a, ast.Name) and a.id in functions and a.id not in pure:
            return True
        if isinstance(a, ast.Attribute) and (a.attr in MUTATORS or "." + a.attr in functions):
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
