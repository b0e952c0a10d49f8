"""Types of a whole program, by iterating to a fixed point.

A variable has the join of everything ever assigned to it, whatever the order. Which container a name means is
not followed: what is put into one may be in every container of its kind. Only where all values of a name are
new containers nothing else is widened: what else they become is inferred from the name.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from skyt.repair.rules.analysis.functions import FunctionInfo, made_names
from skyt.repair.rules.analysis.infer import Inference
from skyt.repair.rules.analysis.syntax import loaded, returns
from skyt.repair.rules.analysis.trees import words
from skyt.repair.rules.analysis.types import ANY, Type, element, is_number, join, kind

MAX_ROUNDS = 8
GROWING = words("append add appendleft insert extend extendleft update setdefault")
Env = dict[str, Type]


def widened(t: Type, more: Type) -> Type:
    """The type, with every container in it of the kind of `more` able to hold what `more` holds."""
    if not isinstance(t, tuple):
        return t
    inner = tuple(widened(x, more) for x in t[1:])  # type: ignore[arg-type]
    if isinstance(more, tuple) and t[0] == more[0]:
        return join((t[0], *inner), more)
    return (t[0], *(ANY if more == ANY else x for x in inner))


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
        inference.results = dict.fromkeys(by_name)
        self.all: list[Env] = [*(i.env for i in functions), inference.attributes, inference.results]
        for info in functions:
            info.made = made_names(info, by_name)
            self._start(info, id(info.node) in exposed)

    def _start(self, info: FunctionInfo, exposed: bool) -> None:
        env, defaults = info.env, info.node.args.defaults
        env.update(dict.fromkeys(info.assigned))
        env.update(dict.fromkeys(info.arguments, ANY if info.public or exposed else None))
        if not exposed:
            env.update({name: parameter.type for name, parameter in info.given.items()})
        if info.owner is not None and info.arguments:
            env[info.arguments[0]] = "object:" + info.owner.name
        for name, default in zip(reversed(info.arguments), reversed(defaults), strict=False):
            env[name] = join(env.get(name), self.inference.of(default, {}))

    def solve(self) -> None:
        """Rounds until nothing changes; where that takes too many, nothing is known."""
        for _ in range(MAX_ROUNDS):
            before = [list(types.items()) for types in self.all]
            for info in self.functions:
                self._function(info)
            if [list(types.items()) for types in self.all] == before and not self._unseen():
                return
        for types in self.all:
            types.update(dict.fromkeys(types, ANY))

    def _unseen(self) -> bool:
        """Whether there are places where no value has been seen. One may come by a way not followed here."""
        unseen = [(types, name) for types in self.all for name, t in types.items() if t is None]
        for types, name in unseen:
            types[name] = ANY
        return bool(unseen)

    def _function(self, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        returned: Type = None
        for node in info.binding:
            match node:
                case ast.Return(value=value):
                    returned = join(returned, infer.of(value, env))
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target, infer.of(value, env), value, info)
                case ast.AugAssign(target=target, op=op, value=value):
                    old, more = loaded(target), infer.of(value, env)
                    self._bind(target, infer.of(ast.BinOp(old, op, value), env), None, info)
                    whole = infer.of(old, env)  # a container changes in place, under all of its names
                    if isinstance(whole, tuple) or (whole == ANY and more and not is_number(more)):
                        self._widen(whole, target, info)
                case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                    self._bind(target, element(infer.of(source, env)), None, info)
                case ast.Call(func=function, args=args):
                    self._arguments(node, env)
                    if isinstance(function, ast.Attribute) and function.attr in GROWING and args:
                        whole, types = infer.of(function.value, env), [infer.of(a, env) for a in args]
                        self._widen(_added(whole, function.attr, types), function.value, info)
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

    def _bind(self, target: ast.expr, value: Type, source: ast.expr | None, info: FunctionInfo) -> None:
        env, infer = info.env, self.inference
        match target:
            case ast.Name(id=name):
                env[name] = join(env.get(name), value)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
                for i, item in enumerate(items):
                    if len(parts) == len(items):
                        self._bind(item, infer.of(parts[i], env), parts[i], info)
                    elif isinstance(value, tuple) and value[0] == "pair" and len(items) == 2:
                        self._bind(item, value[1 + i], None, info)  # type: ignore[arg-type]
                    else:
                        self._bind(item, ANY if value is not None else None, None, info)
            case ast.Attribute(attr=name):
                infer.attributes[name] = join(infer.attributes.get(name), value)
            case ast.Subscript(value=owner, slice=index):
                how, given = "[:]" if isinstance(index, ast.Slice) else "[]", [infer.of(index, env), value]
                self._widen(_added(infer.of(owner, env), how, given), owner, info)

    def _widen(self, more: Type, owner: ast.expr, info: FunctionInfo) -> None:
        """Something comes into a container."""
        if isinstance(owner, ast.Name) and owner.id in info.made:
            info.env[owner.id] = join(info.env[owner.id], more)
        elif more is not None:
            for types in self.all:
                types.update({name: widened(t, more) for name, t in types.items()})

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

    def _methods(self, name: str) -> list[FunctionInfo]:
        return [i for i in self.functions if i.owner is not None and i.node.name == name]


def _added(whole: Type, how: str, given: list[Type]) -> Type:
    """What a method of a container, or an assignment to an entry, puts into it: a container of its kind that
    holds the same, ANY where that is not known."""
    match kind(whole), how, given:
        case "list" | "deque" | "set" as k, "append" | "appendleft" | "add" | "insert" | "[]", [*_, new]:
            return (k, new)
        case "list" | "deque" | "set" as k, "extend" | "extendleft" | "update", [more]:
            return (k, element(more))
        case "dict", "setdefault" | "[]", [key, new]:
            return ("dict", key, new)
    return ANY if whole is not None and not kind(whole).startswith("object:") else None
