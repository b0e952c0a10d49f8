"""Types of expressions, by their form."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.trees import CHILDREN
from skyt.repair.rules.analysis.values.results import (
    ALWAYS,
    MODULE_TYPES,
    OF_LIST,
    OF_TEXT,
    RESULTS,
    joined,
    operator_result,
)
from skyt.repair.rules.analysis.values.types import ANY, Type, element, is_str, join, kind

Env = Mapping[str, Type]


def dotted(node: ast.expr) -> str:
    """`module.name` of an attribute of a plain name, else empty."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _natural(node: ast.expr) -> bool:
    """Whether an expression is by its form an integer that is not negative."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"len", "abs"}
    value = int_value(node)
    return value is not None and value >= 0


class Inference:
    """Types of expressions, given types of variables, attributes, and results of the program's own
    functions."""

    def __init__(self) -> None:
        self.attributes: dict[str, Type] = {}
        self.results: dict[str, Type] = {}  # functions by name, methods by ".name"
        self.classes: set[str] = set()

    def of(self, node: ast.expr | None, env: Env) -> Type:
        if node is None:
            return "none"
        method = METHODS.get(node.__class__)
        return method(self, node, env) if method is not None else ANY

    def _all(self, nodes: list[ast.expr], env: Env) -> Type:
        return joined([self.of(n, env) for n in nodes])

    def _constant(self, node: ast.Constant, env: Env) -> Type:
        value = node.value
        if isinstance(value, str):
            return "char" if len(value) == 1 else "str"
        name = "none" if value is None else type(value).__name__
        return name if name in {"none", "int", "bool", "float"} else ANY

    def _name(self, node: ast.Name, env: Env) -> Type:
        return env.get(node.id, ANY)

    def _boolop(self, node: ast.BoolOp, env: Env) -> Type:
        return self._all(node.values, env)

    def _ifexp(self, node: ast.IfExp, env: Env) -> Type:
        return join(self.of(node.body, env), self.of(node.orelse, env))

    def _unaryop(self, node: ast.UnaryOp, env: Env) -> Type:
        inner = "bool" if isinstance(node.op, ast.Not) else self.of(node.operand, env)
        if isinstance(node.op, ast.Not) or inner in {None, "int", "float"}:
            return inner
        return "int" if inner == "bool" else ANY

    def _binop(self, node: ast.BinOp, env: Env) -> Type:
        a, b = self.of(node.left, env), self.of(node.right, env)
        if a is None or b is None:
            return None  # no value seen yet: the next round of inference knows more
        return operator_result(node.op, a, b, _natural(node.right))

    def _display(self, node: ast.List | ast.Set | ast.Tuple, env: Env) -> Type:
        return (node.__class__.__name__.lower(), self._all(node.elts, env))

    _list = _set = _tuple = _display

    def _dict(self, node: ast.Dict, env: Env) -> Type:
        keys = [k for k in node.keys if k is not None]
        if len(keys) < len(node.keys):
            return ANY
        return ("dict", self._all(keys, env), self._all(node.values, env))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, env: Env) -> Type:
        made = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iter"}
        return (made[node.__class__], self.of(node.elt, env))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _dictcomp(self, node: ast.DictComp, env: Env) -> Type:
        return ("dict", self.of(node.key, env), self.of(node.value, env))

    def _attribute(self, node: ast.Attribute, env: Env) -> Type:
        member = MODULE_TYPES.get(dotted(node))
        if member is not None and node.value.id not in env:  # type: ignore[attr-defined]
            return member
        owner = self.of(node.value, env)
        if owner is None:
            return None
        return self.attributes.get(node.attr, ANY) if kind(owner).startswith("object:") else ANY

    def _subscript(self, node: ast.Subscript, env: Env) -> Type:
        whole = self.of(node.value, env)
        if whole is None:
            return None
        if isinstance(node.slice, ast.Slice):
            return "str" if is_str(whole) else whole if kind(whole) in {"list", "tuple"} else ANY
        if kind(whole) == "dict":
            return whole[2]  # type: ignore[return-value]
        return element(whole) if kind(whole) in {"str", "char", "list", "tuple", "deque"} else ANY

    def _call(self, node: ast.Call, env: Env) -> Type:
        function, args = node.func, node.args
        if isinstance(function, ast.Name):
            return self._function(function.id, args, node.keywords, env)
        if not isinstance(function, ast.Attribute):
            return ANY
        name = dotted(function)
        if name in MODULE_TYPES and function.value.id not in env:  # type: ignore[attr-defined]
            return ANY if args and name.startswith("collections.") else MODULE_TYPES[name]
        owner = self.of(function.value, env)
        return self._method(owner, function.attr, args, env) if owner is not None else None

    def _function(self, name: str, args: list[ast.expr], keywords: list[ast.keyword], env: Env) -> Type:
        if name in self.results:
            return self.results[name]
        if name in self.classes:
            return "object:" + name
        if name in ALWAYS:
            return ALWAYS[name]
        if name not in RESULTS or any(k.arg not in {"key", "reverse", "default"} for k in keywords):
            return ANY
        found = RESULTS[name]([self.of(a, env) for a in args])
        return join(self._all([k.value for k in keywords if k.arg == "default"], env), found)

    def _method(self, owner: Type, name: str, args: list[ast.expr], env: Env) -> Type:
        match kind(owner):
            case "str" | "char":
                return OF_TEXT.get(name, ANY)
            case "list" | "deque":
                if name == "copy":
                    return owner
                return element(owner) if name in {"pop", "popleft"} else OF_LIST.get(name, ANY)
            case "dict" if isinstance(owner, tuple):
                key, value = owner[1], owner[2]
                if name in {"get", "setdefault"} and args:
                    other = self.of(args[1], env) if len(args) == 2 else "none"
                    return join(value, other) if name == "get" or len(args) == 2 else ANY  # type: ignore[arg-type]
                if name == "pop":
                    return value if len(args) == 1 else ANY  # type: ignore[return-value]
                views = {"keys": key, "values": value, "items": ("pair", key, value)}
                return ("iter", views[name]) if name in views else ANY
            case k if k.startswith("object:"):
                return self.results.get("." + name, ANY)
        return ANY


METHODS: dict[type, Callable[[Inference, Any, Env], Type] | None] = {
    **{cls: getattr(Inference, "_" + cls.__name__.lower(), None) for cls in CHILDREN},
    ast.JoinedStr: lambda self, node, env: "str",
    ast.Compare: lambda self, node, env: "bool",
}
