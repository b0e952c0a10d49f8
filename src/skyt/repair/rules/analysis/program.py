"""What is known of a program as a whole: types of its variables, which of its functions are pure, who owns
what.

Types are flow-insensitive: a variable has the join of everything ever assigned to it, found by iterating to
a fixed point from the contract's facts about the entry point's parameters and from the call sites of private
functions.
"""

from __future__ import annotations

import ast
from functools import cached_property

from skyt.repair.rules.analysis.aliasing import defaulting, made_here, widened
from skyt.repair.rules.analysis.effects.effects import Effects, mutates_receiver, pure_call
from skyt.repair.rules.analysis.flow.exposure import exposed
from skyt.repair.rules.analysis.flow.reach import Outside
from skyt.repair.rules.analysis.functions import FunctionInfo
from skyt.repair.rules.analysis.ownership import owned_names
from skyt.repair.rules.analysis.trees.bindings import (
    BINDING,
    assignments_of,
    attribute_order,
    bound_anywhere,
    loaded,
    own_nodes,
)
from skyt.repair.rules.analysis.trees.syntax import local_functions, returns, stored_names
from skyt.repair.rules.analysis.trees.trees import NESTED, walk, walk_shallow
from skyt.repair.rules.analysis.values.infer import Inference
from skyt.repair.rules.analysis.values.types import ANY, Type, element, join, kind
from skyt.repair.rules.facts import Facts

MAX_ROUNDS = 8


__all__ = ["FunctionInfo", "Program"]


class Program:
    """The analysis of one syntax tree. It is thrown away and made anew when the tree changes."""

    def __init__(self, tree: ast.Module, facts: Facts, trusted: bool = False) -> None:
        self.tree = tree
        self.facts = facts
        self.trusted = trusted
        self.inference = Inference()
        self.functions: dict[int, FunctionInfo] = {}
        self.by_name: dict[str, FunctionInfo] = {}
        self.globals = {
            n.id
            for s in tree.body
            if not isinstance(s, NESTED)
            for n in walk_shallow(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        nodes = walk(tree)
        self.bound = frozenset(bound_anywhere(nodes))
        self.attribute_order = attribute_order(tree, facts.public)
        # Reading a `defaultdict` may change it.
        self.grows = any(isinstance(n, ast.Attribute) and n.attr == "defaultdict" for n in nodes)
        self._elsewhere: set[tuple[int, str]] = set()  # names of containers that have other names too
        self.seen: dict[tuple[int | None, ...], tuple[Effects, list[ast.AST]]] = {}  # see Scope.effects
        self._collect()
        self._infer()
        for info in self.functions.values():
            info.owned = frozenset(owned_names(info))
        self.pure = self._purity()
        self._nonnegative()
        self.seen.clear()  # found while not all was known

    def type_of(self, node: ast.expr | None, function: FunctionInfo | None) -> Type:
        result = self.inference.of(node, function.env if function else {})
        return ANY if result is None else result

    def _collect(self) -> None:
        for owner, node in local_functions(self.tree):
            self._add(owner, node)
            for inner in walk(node):
                if isinstance(inner, ast.FunctionDef) and inner is not node:
                    self._add(None, inner)
        self.inference.classes = {s.name for s in self.tree.body if isinstance(s, ast.ClassDef)}
        self.open = exposed(self.tree, self.functions.values())

    @cached_property
    def outside(self) -> Outside:
        """What functions read that is not their own. On demand: few programs call their own functions."""
        return Outside({n: i.node for n, i in self.by_name.items() if i.owner is None})

    @cached_property
    def methods(self) -> frozenset[tuple[str, str]]:
        """(class, method) for every method."""
        owned = [i for i in self.functions.values() if i.owner is not None]
        return frozenset((i.owner.name, i.node.name) for i in owned if i.owner is not None)

    @cached_property
    def always_set(self) -> dict[str, frozenset[str]]:
        """By class, the attributes that every object has once it is made."""
        return {
            i.owner.name: _set_at_once(i.node)
            for i in self.functions.values()
            if i.owner is not None and i.node.name == "__init__"
        }

    def _add(self, owner: ast.ClassDef | None, node: ast.FunctionDef) -> None:
        facts = self.facts
        entry = owner is not None and owner.name == facts.name and facts.kind == "class"
        public = entry if owner is not None else facts.kind == "function" and node.name == facts.name
        info = FunctionInfo(node, owner, public, parameters=facts.of(node.name) if public else ())
        info.public = public and (bool(info.parameters) or node.name in facts.public)
        self.functions[id(node)] = info
        self.by_name[("." if owner else "") + node.name] = info
        nodes = walk(node)
        inner = [n for n in nodes if n.__class__ in NESTED and n is not node]
        info.captured = frozenset(n.id for nested in inner for n in walk(nested) if isinstance(n, ast.Name))
        info.binding = [n for n in own_nodes(node) if isinstance(n, BINDING)]
        for target, value in assignments_of(node):
            info.assigned.setdefault(target, []).append(value)

    def _infer(self) -> None:
        results = self.inference.results
        for key in self.by_name:
            results[key] = None
        for info in self.functions.values():
            env = info.env
            env.update(dict.fromkeys(info.assigned))
            for argument in info.arguments:
                env[argument] = None if not info.public else ANY
            for parameter, argument in zip(info.parameters, info.value_arguments, strict=False):
                env[argument] = parameter.type
            if id(info.node) in self.open:
                env.update(dict.fromkeys(info.arguments, ANY))
            if info.owner is not None and info.arguments:
                env[info.arguments[0]] = "object:" + info.owner.name
            for default in info.node.args.defaults:
                name = info.arguments[-len(info.node.args.defaults) :][info.node.args.defaults.index(default)]
                env[name] = join(env.get(name), self.inference.of(default, {}))
        for owner in (s for s in self.tree.body if isinstance(s, ast.ClassDef)):
            self.inference.attributes.update(dict.fromkeys(stored_names(owner.body), ANY))
        for _ in range(MAX_ROUNDS):
            before = self._snapshot()
            for info in self.functions.values():
                self._infer_function(info)
            if self._snapshot() == before:
                break
        else:
            for info in self.functions.values():
                info.env.update(dict.fromkeys(info.env, ANY))
            self.inference.attributes = {}
            self.inference.results = dict.fromkeys(results, ANY)
        for info in self.functions.values():
            info.env.update({k: ANY for k, v in info.env.items() if v is None})
        self.inference.attributes = {k: ANY if v is None else v for k, v in self.inference.attributes.items()}
        self.inference.results = {k: ANY if v is None else v for k, v in self.inference.results.items()}

    def _snapshot(self) -> tuple[object, ...]:
        envs = tuple(tuple(info.env.items()) for info in self.functions.values())
        return envs, tuple(self.inference.attributes.items()), tuple(self.inference.results.items())

    def _infer_function(self, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        returned: Type = None
        for node in info.binding:
            if isinstance(node, ast.Return):
                returned = join(returned, infer.of(node.value, env))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, infer.of(node.value, env), node.value, env)
            elif isinstance(node, ast.AugAssign):
                value = ast.BinOp(left=loaded(node.target), op=node.op, right=node.value)
                self._bind(node.target, infer.of(value, env), None, env)
            elif isinstance(node, ast.For | ast.comprehension):
                self._bind(node.target, element(infer.of(node.iter, env)), None, env)
            elif isinstance(node, ast.Call):
                self._arguments(node, env)
                self._grow(node, env)
            elif isinstance(node, ast.Lambda):
                env.update({a.arg: ANY for a in node.args.args})
            elif isinstance(node, ast.FunctionDef):
                env[node.name] = ANY
        falls = not returns(info.node.body)
        key = ("." if info.owner else "") + info.node.name
        if self.by_name.get(key) is info:
            infer.results[key] = join(infer.results.get(key), join(returned, "none" if falls else None))
            if falls and returned is not None:
                infer.results[key] = join(infer.results[key], "none")
        elif key in infer.results:
            infer.results[key] = ANY

    def _bind(self, target: ast.expr, value: Type, source: ast.expr | None, env: dict[str, Type]) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = join(env.get(target.id), value)
            self._shared(target.id, source, env, env)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
            for i, item in enumerate(target.elts):
                if len(parts) == len(target.elts):
                    self._bind(item, self.inference.of(parts[i], env), parts[i], env)
                elif kind(value) == "pair" and isinstance(value, tuple) and len(target.elts) == 2:
                    self._bind(item, value[1 + i], None, env)  # type: ignore[arg-type]
                else:
                    self._bind(item, ANY if value is not None else None, None, env)
        elif isinstance(target, ast.Attribute):
            known = self.inference.attributes
            known[target.attr] = join(known.get(target.attr), value)
        elif isinstance(target, ast.Subscript):
            whole = self.inference.of(target.value, env)
            if kind(whole) in {"list", "deque"} and not isinstance(target.slice, ast.Slice):
                self._widen(target.value, (kind(whole), value), env)
            elif kind(whole) == "dict":
                self._widen(target.value, ("dict", self.inference.of(target.slice, env), value), env)
            else:
                self._widen(target.value, ANY, env)
                if whole == ANY and not self._apart(target.value, env):
                    self._widen_all(("list", value))
                    self._widen_all(("deque", value))
                    self._widen_all(("dict", ANY, value))

    def _apart(self, owner: ast.expr, env: dict[str, Type]) -> bool:
        """Whether a name only ever means new dicts with defaults, which are none of the other containers."""
        info = next((i for i in self.functions.values() if i.env is env), None)
        if info is None or not isinstance(owner, ast.Name) or owner.id in info.arguments:
            return False
        return defaulting(info.assigned.get(owner.id, []))

    def _shared(
        self, name: str, source: ast.expr | None, env: dict[str, Type], other: dict[str, Type]
    ) -> None:
        """A container that gets a second name (here, of the other environment) can be changed by either."""
        t = env[name]
        if not isinstance(t, tuple):
            return
        if isinstance(source, ast.Name):
            other[source.id] = join(other.get(source.id), t)
        elif isinstance(source, ast.Attribute):
            known = self.inference.attributes
            known[source.attr] = join(known.get(source.attr), t)
        elif source is None or not made_here(source):
            self._elsewhere.add((id(env), name))

    def _widen(self, owner: ast.expr, value: Type, env: dict[str, Type]) -> None:
        if isinstance(owner, ast.Name):
            env[owner.id] = join(env.get(owner.id), value)
            if (id(env), owner.id) not in self._elsewhere:
                return
        elif isinstance(owner, ast.Attribute):
            known = self.inference.attributes
            known[owner.attr] = join(known.get(owner.attr), value)
            return
        self._widen_all(value)

    def _widen_all(self, value: Type) -> None:
        for info in self.functions.values():
            for name, t in info.env.items():
                info.env[name] = widened(t, value)
        for types in (self.inference.attributes, self.inference.results):
            for name, t in types.items():
                types[name] = widened(t, value)

    def _grow(self, node: ast.Call, env: dict[str, Type]) -> None:
        """Elements put into a container widen its element type."""
        function = node.func
        if not isinstance(function, ast.Attribute) or not node.args:
            return
        whole = self.inference.of(function.value, env)
        k, last = kind(whole), self.inference.of(node.args[-1], env)
        if whole == ANY:
            for unknown in ("list", "set", "deque"):
                if function.attr in {"append", "add", "appendleft", "insert"}:
                    self._widen_all((unknown, last))
                elif function.attr in {"extend", "extendleft", "update"}:
                    self._widen_all((unknown, element(last)))
        if k not in {"list", "set", "deque", "dict"}:
            return
        if function.attr in {"append", "add", "appendleft", "insert"} and k != "dict":
            self._widen(function.value, (k, last), env)
        elif function.attr in {"extend", "extendleft"}:
            self._widen(function.value, (k, element(last)), env)
        elif function.attr == "setdefault" and k == "dict" and len(node.args) == 2:
            key = self.inference.of(node.args[0], env)
            self._widen(function.value, ("dict", key, last), env)
        elif function.attr in {"setdefault", "update"}:
            self._widen(function.value, ANY, env)

    def _arguments(self, node: ast.Call, env: dict[str, Type]) -> None:
        """Arguments at a call site widen the parameters of the function called."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in self.inference.classes:
            found = [i for i in self._methods("__init__") if i.owner and i.owner.name == function.id]
        elif isinstance(function, ast.Name):
            info = self.by_name.get(function.id)
            found = [] if info is None or info.owner is not None else [info]
        elif isinstance(function, ast.Attribute):
            receiver = function.value
            k = kind(self.inference.of(receiver, env))
            found = self._methods(function.attr) if not k or k.startswith("object:") else []
        else:
            return
        for info in found:
            self._pass(node, info, env)

    def _methods(self, name: str) -> list[FunctionInfo]:
        return [i for i in self.functions.values() if i.owner is not None and i.node.name == name]

    def _pass(self, node: ast.Call, info: FunctionInfo, env: dict[str, Type]) -> None:
        names = info.value_arguments
        given = {k.arg: k.value for k in node.keywords if k.arg}
        given.update(zip(names, node.args, strict=False))
        for name in names:
            if name in given:
                info.env[name] = join(info.env.get(name), self.inference.of(given[name], env))
                self._shared(name, given[name], info.env, env)

    def _purity(self) -> frozenset[str]:
        """Functions without effects outside themselves, by the greatest fixed point (recursion allowed)."""
        candidates = {n for n, i in self.by_name.items() if i.owner is None}
        while True:
            impure = {n for n in candidates if not self._is_pure(self.by_name[n], candidates)}
            if not impure:
                return frozenset(candidates)
            candidates -= impure

    def _is_pure(self, info: FunctionInfo, candidates: set[str]) -> bool:
        for node in walk(info.node):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                if not (isinstance(node.value, ast.Name) and node.value.id in info.owned):
                    return False
            elif isinstance(node, ast.Call):
                receiver = mutates_receiver(node)
                if receiver is not None:
                    if not (isinstance(receiver, ast.Name) and receiver.id in info.owned):
                        return False
                elif not pure_call(node, candidates, self.by_name):
                    return False
            elif (
                isinstance(node, ast.AugAssign)
                and isinstance(node.target, ast.Name)
                and kind(info.env.get(node.target.id, ANY)) in {"", "list", "set", "dict", "deque"}
                and node.target.id not in info.owned
            ):
                return False
        return True

    def _nonnegative(self) -> None:
        from skyt.repair.rules.analysis.values.bounds import nonnegative_variables

        for info in self.functions.values():
            info.nonnegative = nonnegative_variables(info, self)


def _set_at_once(init: ast.FunctionDef) -> frozenset[str]:
    """Attributes that a constructor sets whatever happens, before anyone else can see the object."""
    own = init.args.args[0].arg if init.args.args else ""
    uses = [n for n in walk(init) if isinstance(n, ast.Name) and n.id == own]
    accesses = [
        n
        for n in walk(init)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == own
    ]
    called = {id(n.func) for n in walk(init) if isinstance(n, ast.Call)}
    if len(uses) != len(accesses) or any(id(a) in called for a in accesses):
        return frozenset()
    if any(isinstance(n, ast.Return) for n in walk(init)):
        return frozenset()
    targets = [t for s in init.body if isinstance(s, ast.Assign) for t in s.targets]
    return frozenset(t.attr for t in targets if isinstance(t, ast.Attribute) and t in accesses)
