"""Types of a whole program, by iterating to a fixed point.

A variable has the join of everything ever assigned to it, whatever the order. Where a container can be
reached by a way that is not followed here, what is put into it widens every container of its kind.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from skyt.repair.rules.analysis.functions import FunctionInfo, makes_container
from skyt.repair.rules.analysis.syntax import loaded, returns
from skyt.repair.rules.analysis.values.infer import Inference
from skyt.repair.rules.analysis.values.types import ANY, Type, element, is_int, join, kind

MAX_ROUNDS = 8
ONE_MORE = frozenset({"append", "add", "appendleft", "insert"})
MANY_MORE = frozenset({"extend", "extendleft", "update"})
Env = dict[str, Type]


def widened(t: Type, more: Type) -> Type:
    """The type, with every container in it of the kind of `more` able to hold what `more` holds."""
    if not isinstance(t, tuple):
        return t
    inner = tuple(widened(x, more) for x in t[1:])  # type: ignore[arg-type]
    if isinstance(more, tuple) and t[0] == more[0] and len(t) == len(more):
        inner = tuple(join(x, y) for x, y in zip(inner, more[1:], strict=True))  # type: ignore[arg-type]
    elif more == ANY and t[0] in {"list", "deque", "dict", "set"}:
        inner = (ANY,) * len(inner)
    return (t[0], *inner)


def defaulting(values: Sequence[ast.expr | None]) -> bool:
    """Whether all of these make a `defaultdict` or `Counter` (and there is one)."""
    names = {ast.unparse(v.func) if isinstance(v, ast.Call) else "" for v in values}
    return bool(names) and names <= {"collections.defaultdict", "collections.Counter"}


class Solver:
    """Fills in the types of variables, attributes and results. `by_name` has methods with a dot; functions in
    `exposed` are called with anything."""

    def __init__(
        self,
        inference: Inference,
        functions: Sequence[FunctionInfo],
        by_name: Mapping[str, FunctionInfo],
        exposed: frozenset[int],
    ) -> None:
        self.inference, self.functions, self.by_name = inference, functions, by_name
        self.shared: set[tuple[int, str]] = set()  # names of containers that have other names too
        inference.results = dict.fromkeys(by_name)
        for info in functions:
            self._start(info, id(info.node) in exposed)

    def _start(self, info: FunctionInfo, exposed: bool) -> None:
        env, defaults = info.env, info.node.args.defaults
        env.update(dict.fromkeys(info.assigned))
        env.update(dict.fromkeys(info.arguments, ANY if info.public or exposed else None))
        if not exposed:
            env.update({a: p.type for p, a in zip(info.parameters, info.value_arguments, strict=False)})
        if info.owner is not None and info.arguments:
            env[info.arguments[0]] = "object:" + info.owner.name
        for name, default in zip(reversed(info.arguments), reversed(defaults), strict=False):
            env[name] = join(env.get(name), self.inference.of(default, {}))

    def solve(self) -> None:
        """Rounds until nothing changes; where that takes too many, nothing is known."""
        for _ in range(MAX_ROUNDS):
            before = self._snapshot()
            for info in self.functions:
                self._function(info)
            if self._snapshot() == before:
                break
        else:
            for types in self._all():
                types.update(dict.fromkeys(types, ANY))
        for types in self._all():
            types.update({name: ANY for name, t in types.items() if t is None})

    def _all(self) -> list[Env]:
        return [*(i.env for i in self.functions), self.inference.attributes, self.inference.results]

    def _snapshot(self) -> list[list[tuple[str, Type]]]:
        return [list(types.items()) for types in self._all()]

    def _function(self, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        returned: Type = None
        for node in info.binding:
            match node:
                case ast.Return(value=value):
                    returned = join(returned, infer.of(value, env))
                case ast.Assign(targets=targets, value=value):
                    source = value if len(targets) == 1 else None  # else one object gets several names
                    for target in targets:
                        self._bind(target, infer.of(value, env), source, env)
                case ast.AugAssign(target=target, op=op, value=value):
                    self._bind(target, infer.of(ast.BinOp(loaded(target), op, value), env), None, env)
                    self._extend(infer.of(loaded(target), env), infer.of(value, env))
                case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                    self._bind(target, element(infer.of(source, env)), None, env)
                case ast.Call():
                    self._arguments(node, env)
                    self._grow(node, env)
                case ast.Lambda(args=args):
                    env.update({a.arg: ANY for a in args.args})
                case ast.FunctionDef(name=name):
                    env[name] = ANY
        key = ("." if info.owner else "") + info.node.name
        if self.by_name.get(key) is not info:
            infer.results[key] = ANY
            return
        falls = "none" if not returns(info.node.body) else None
        infer.results[key] = join(infer.results.get(key), join(returned, falls))

    def _bind(self, target: ast.expr, value: Type, source: ast.expr | None, env: Env) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = join(env.get(name), value)
                self._share(name, source, env, env)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
                for i, item in enumerate(items):
                    if len(parts) == len(items):
                        self._bind(item, self.inference.of(parts[i], env), parts[i], env)
                    elif isinstance(value, tuple) and value[0] == "pair" and len(items) == 2:
                        self._bind(item, value[1 + i], None, env)  # type: ignore[arg-type]
                    else:
                        self._bind(item, ANY if value is not None else None, None, env)
            case ast.Attribute(attr=name):
                self._join_attribute(name, value)
                if isinstance(source, ast.Name) and isinstance(value, tuple):  # what is in one is in both
                    env[source.id] = join(env.get(source.id), self.inference.attributes[name])
            case ast.Subscript(value=owner, slice=index):
                self._put(owner, index, value, env)

    def _put(self, owner: ast.expr, index: ast.expr, value: Type, env: Env) -> None:
        """`owner[index] = value`."""
        whole = self.inference.of(owner, env)
        if kind(whole) in {"list", "deque"} and not isinstance(index, ast.Slice):
            self._widen(owner, (kind(whole), value), env)
        elif kind(whole) == "dict":
            self._widen(owner, ("dict", self.inference.of(index, env), value), env)
        else:
            self._widen(owner, ANY, env)
            if whole == ANY and not self._apart(owner, env):
                for unknown in (("list", value), ("deque", value), ("dict", ANY, value)):
                    self._widen_all(unknown)

    def _apart(self, owner: ast.expr, env: Env) -> bool:
        """Whether a name only ever means new dicts with defaults, which are none of the other containers."""
        info = next((i for i in self.functions if i.env is env), None)
        if info is None or not isinstance(owner, ast.Name) or owner.id in info.arguments:
            return False
        return defaulting(info.assigned.get(owner.id, []))

    def _join_attribute(self, name: str, t: Type) -> None:
        known = self.inference.attributes
        known[name] = join(known.get(name), t)

    def _share(self, name: str, source: ast.expr | None, env: Env, other: Env) -> None:
        """A container that gets a second name (here, of the other environment) can be changed by either."""
        t = env[name]
        if t == ANY and isinstance(source, ast.Name) and isinstance(other.get(source.id), tuple):
            other[source.id] = ANY
        if not isinstance(t, tuple):
            return
        if isinstance(source, ast.Name):
            other[source.id] = join(other.get(source.id), t)
        elif isinstance(source, ast.Attribute):
            self._join_attribute(source.attr, t)
        elif not (isinstance(source, ast.Tuple) or (source and makes_container(source, t, self.by_name))):
            self.shared.add((id(env), name))

    def _widen(self, owner: ast.expr, value: Type, env: Env) -> None:
        if isinstance(owner, ast.Attribute):
            self._join_attribute(owner.attr, value)
            return
        if isinstance(owner, ast.Name):
            env[owner.id] = join(env.get(owner.id), value)
            if (id(env), owner.id) not in self.shared:
                return
        self._widen_all(value)

    def _widen_all(self, value: Type) -> None:
        for types in self._all():
            types.update({name: widened(t, value) for name, t in types.items()})

    def _extend(self, whole: Type, more: Type) -> None:
        """`x += more` changes a container in place, under all of its names."""
        if whole == ANY and not (is_int(more) or more in {"float", "none", None}):
            for unknown in (("list", element(more)), ("set", element(more)), ("dict", ANY, ANY)):
                self._widen_all(unknown)
        elif isinstance(whole, tuple) and whole[0] in {"list", "set", "deque", "dict"}:
            self._widen_all(whole)

    def _grow(self, node: ast.Call, env: Env) -> None:
        """Elements put into a container widen its element type."""
        if not isinstance(node.func, ast.Attribute) or not node.args:
            return
        owner, name = node.func.value, node.func.attr
        whole, last = self.inference.of(owner, env), self.inference.of(node.args[-1], env)
        new = last if name in ONE_MORE else element(last)
        if whole == ANY and name in ONE_MORE | MANY_MORE:
            for unknown in ("list", "set", "deque"):
                self._widen_all((unknown, new))
        if whole == ANY and name in {"setdefault", "update"}:
            self._widen_all(("dict", ANY, ANY))
        elif kind(whole) == "dict" and name == "setdefault" and len(node.args) == 2:
            self._widen(owner, ("dict", self.inference.of(node.args[0], env), last), env)
        elif kind(whole) in {"list", "set", "deque", "dict"} and name in {"setdefault", "update"}:
            self._widen(owner, ANY, env)
        elif kind(whole) in {"list", "set", "deque"} and name in ONE_MORE | MANY_MORE:
            self._widen(owner, (kind(whole), new), env)

    def _arguments(self, node: ast.Call, env: Env) -> None:
        """Arguments at a call site widen the parameters of the function called."""
        found: list[FunctionInfo] = []
        match node.func:
            case ast.Name(id=name) if name in self.inference.classes:
                found = [i for i in self._methods("__init__") if i.owner and i.owner.name == name]
            case ast.Name(id=name) if name in self.by_name and self.by_name[name].owner is None:
                found = [self.by_name[name]]
            case ast.Attribute(value=receiver, attr=name):
                k = kind(self.inference.of(receiver, env))
                found = self._methods(name) if not k or k.startswith("object:") else []
        for info in found:
            given = {k.arg: k.value for k in node.keywords if k.arg}
            given.update(zip(info.value_arguments, node.args, strict=False))
            for name in info.value_arguments:
                if name in given:
                    info.env[name] = join(info.env.get(name), self.inference.of(given[name], env))
                    self._share(name, given[name], info.env, env)

    def _methods(self, name: str) -> list[FunctionInfo]:
        return [i for i in self.functions if i.owner is not None and i.node.name == name]
