"""What is known of a program as a whole: types of its variables, which of its functions are pure, who owns
what."""

from __future__ import annotations

import ast
from functools import cached_property

from skyt.repair.rules.analysis.effects import Effects, mutates_receiver, pure_call
from skyt.repair.rules.analysis.functions import FunctionInfo, owned_names
from skyt.repair.rules.analysis.infer import Inference
from skyt.repair.rules.analysis.reach import Outside
from skyt.repair.rules.analysis.solving import Solver
from skyt.repair.rules.analysis.syntax import (
    BINDING,
    assignments_of,
    attribute_order,
    bound_anywhere,
    local_functions,
    own_nodes,
    stored_names,
)
from skyt.repair.rules.analysis.trees import NESTED, walk
from skyt.repair.rules.analysis.types import ANY, Type, kind
from skyt.repair.rules.facts import Facts

__all__ = ["FunctionInfo", "Program"]


class Program:
    """The analysis of one syntax tree. It is thrown away and made anew when the tree changes."""

    def __init__(self, tree: ast.Module, facts: Facts) -> None:
        self.tree = tree
        self.facts = facts
        self.pure: frozenset[str] = frozenset()
        self.seen: dict[tuple[int | None, ...], tuple[Effects, list[ast.AST]]] = {}  # see Scope.effects
        nodes = walk(tree)
        self.bound = frozenset(bound_anywhere(tree))
        self.attribute_order = attribute_order(tree, facts.public)
        # Reading a `defaultdict` may change it.
        self.grows = any(isinstance(n, ast.Attribute) and n.attr == "defaultdict" for n in nodes)
        self.functions: dict[int, FunctionInfo] = {}
        self.by_name: dict[str, FunctionInfo] = {}
        for owner, function in local_functions(tree):
            for node in walk(function):
                if isinstance(node, ast.FunctionDef):
                    self._add(owner if node is function else None, node)
        infos = list(self.functions.values())
        classes = [s for s in tree.body if isinstance(s, ast.ClassDef)]
        attributes = {n: ANY for c in classes for n in stored_names(c.body)}
        self.inference = Inference({c.name for c in classes}, attributes)
        Solver(self.inference, infos, self.by_name, self._exposed(nodes)).solve()
        for info in infos:
            info.owned = owned_names(info, self.by_name)
        self.pure = self._purity()

    def type_of(self, node: ast.expr | None, function: FunctionInfo | None) -> Type:
        result = self.inference.of(node, function.env if function else {})
        return ANY if result is None else result

    @cached_property
    def outside(self) -> Outside:
        """What functions read that is not their own. On demand: few programs call their own functions."""
        return Outside({n: i.node for n, i in self.by_name.items() if i.owner is None})

    @cached_property
    def methods(self) -> frozenset[tuple[str, str]]:
        """(class, method) for every method."""
        return frozenset((i.owner.name, i.node.name) for i in self.functions.values() if i.owner is not None)

    @cached_property
    def always_set(self) -> dict[str, frozenset[str]]:
        """By class, the attributes that every object has once it is made."""
        made = [i for i in self.functions.values() if i.node.name == "__init__"]
        return {i.owner.name: _set_at_once(i) for i in made if i.owner is not None}

    def _add(self, owner: ast.ClassDef | None, node: ast.FunctionDef) -> None:
        facts = self.facts
        if owner is None:
            public = facts.kind == "function" and node.name == facts.name
        else:
            public = facts.kind == "class" and owner.name == facts.name
        info = FunctionInfo(node, owner, public, parameters=facts.of(node.name) if public else ())
        info.public = public and (bool(info.parameters) or node.name in facts.public)
        self.functions[id(node)] = info
        self.by_name[("." if owner else "") + node.name] = info
        inner = [n for n in walk(node) if n.__class__ in NESTED and n is not node]
        info.captured = frozenset(n.id for n in walk(inner) if isinstance(n, ast.Name))
        info.binding = [n for n in own_nodes(node) if isinstance(n, BINDING)]
        for target, value in assignments_of(node):
            info.assigned.setdefault(target, []).append(value)

    def _exposed(self, nodes: list[ast.AST]) -> frozenset[int]:
        """Functions that may get arguments from anywhere: handed to `map` or as a key, special methods."""
        called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        handed = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}
        special = {n for _, n in self.methods if n.startswith("__") and n != "__init__"}
        infos = self.functions.items()
        return frozenset(k for k, i in infos if i.node.name in (handed if i.owner is None else special))

    def _purity(self) -> frozenset[str]:
        """Functions without effects outside themselves, by the greatest fixed point (recursion allowed)."""
        candidates = {n for n, i in self.by_name.items() if i.owner is None}
        while impure := {n for n in candidates if not self._is_pure(self.by_name[n], candidates)}:
            candidates -= impure
        return frozenset(candidates)

    def _is_pure(self, info: FunctionInfo, candidates: set[str]) -> bool:
        for node in walk(info.node):
            changed: ast.expr | None = None
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                changed = node.value
            elif isinstance(node, ast.Call):
                changed = mutates_receiver(node)
                if changed is None and not pure_call(node, candidates, self.by_name):
                    return False
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                mutable = kind(info.env.get(node.target.id, ANY)) in {"", "list", "set", "dict", "deque"}
                changed = node.target if mutable else None
            if changed is not None and not (isinstance(changed, ast.Name) and changed.id in info.owned):
                return False
        return True


def _set_at_once(info: FunctionInfo) -> frozenset[str]:
    """Attributes that a constructor sets whatever happens, before anyone else can see the object."""
    own, nodes = info.arguments[:1], walk(info.node)
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id in own]
    accesses = [n for n in nodes if isinstance(n, ast.Attribute) and n.value in uses and id(n) not in called]
    if len(uses) != len(accesses) or any(isinstance(n, ast.Return) for n in nodes):
        return frozenset()
    targets = [t for s in info.node.body if isinstance(s, ast.Assign) for t in s.targets]
    return frozenset(t.attr for t in targets if isinstance(t, ast.Attribute) and t in accesses)
