"""Types of expressions, by their form: what operators, builtins and methods give."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.types import (
    ANY,
    IMMUTABLE,
    Type,
    element,
    is_int,
    is_number,
    is_str,
    join,
    kind,
)
from skyt.repair.rules.analysis.vocabulary import TEXT_QUESTIONS, TEXT_TO_TEXT

Env = Mapping[str, Type]

# What builtins, methods of str and list, and members of modules give, whatever they are given.
ALWAYS: dict[str, Type] = {
    **dict.fromkeys(("len", "int", "ord"), "int"),
    **dict.fromkeys(("str", "repr"), "str"),
    **dict.fromkeys(("bool", "isinstance", "any", "all"), "bool"),
    "chr": "char",
    "float": "float",
    "range": ("iter", "int"),
}
OF_TEXT: dict[str, Type] = {
    **dict.fromkeys(TEXT_TO_TEXT, "str"),
    **dict.fromkeys(TEXT_QUESTIONS, "bool"),
    **dict.fromkeys(("split", "splitlines"), ("list", "str")),
    **dict.fromkeys(("find", "index", "count", "rfind"), "int"),
}
OF_LIST: dict[str, Type] = {"index": "int", "count": "int", "append": "none", "extend": "none"}
MODULE_TYPES: dict[str, Type] = {
    **dict.fromkeys((f"math.{n}" for n in ("isqrt", "gcd", "floor", "ceil", "factorial")), "int"),
    **dict.fromkeys((f"string.{n}" for n in ("ascii_lowercase", "ascii_letters", "digits")), "str"),
    **dict.fromkeys(("string.punctuation", "re.sub", "unicodedata.normalize"), "str"),
    **dict.fromkeys(("re.split", "re.findall"), ("list", ANY)),
    "math.sqrt": "float",
    "collections.OrderedDict": ("dict", None, None),
    "collections.deque": ("deque", None),
}
SIGNED: dict[Type, Type] = {None: None, "int": "int", "bool": "int", "float": "float"}
BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)


def dotted(node: ast.expr) -> str:
    """`module.name` of an attribute of a plain name, else empty."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


@dataclass
class Inference:
    """Types of expressions, given types of variables, attributes, and results of the program's own
    functions."""

    classes: set[str]
    attributes: dict[str, Type]
    results: dict[str, Type]  # functions by name, methods by ".name"

    def of(self, node: ast.expr | None, env: Env) -> Type:
        if node is None:
            return "none"
        form = FORMS.get(node.__class__)
        return form(self, node, env) if form is not None else ANY

    def all(self, nodes: list[ast.expr], env: Env) -> Type:
        return joined([self.of(n, env) for n in nodes])

    def binop(self, node: ast.BinOp, env: Env) -> Type:
        a, b = self.of(node.left, env), self.of(node.right, env)
        if a is None or b is None:
            return None  # no value seen yet: the next round of inference knows more
        return _operated(node.op, a, b, _natural(node.right))

    def attribute(self, node: ast.Attribute, env: Env) -> Type:
        name = dotted(node)
        if name in MODULE_TYPES and node.value.id not in env:  # type: ignore[attr-defined]
            return MODULE_TYPES[name]
        owner = self.of(node.value, env)
        if owner is None:
            return None
        return self.attributes.get(node.attr, ANY) if kind(owner).startswith("object:") else ANY

    def subscript(self, node: ast.Subscript, env: Env) -> Type:
        whole = self.of(node.value, env)
        match kind(whole):
            case "str" | "char":
                return "str" if isinstance(node.slice, ast.Slice) else "char"
            case "list" | "tuple":
                return whole if isinstance(node.slice, ast.Slice) else element(whole)
            case "dict" if isinstance(whole, tuple):
                return whole[2]  # type: ignore[return-value]
            case "deque":
                return element(whole)
        return None if whole is None else ANY

    def call(self, node: ast.Call, env: Env) -> Type:
        match node.func:
            case ast.Name(id=name):
                return self._function(name, node, env)
            case ast.Attribute(value=value, attr=name) as function:
                member = dotted(function)
                if member in MODULE_TYPES and value.id not in env:  # type: ignore[attr-defined]
                    return ANY if node.args and member.startswith("collections.") else MODULE_TYPES[member]
                return self._method(self.of(value, env), name, node.args, env)
        return ANY

    def _function(self, name: str, node: ast.Call, env: Env) -> Type:
        if name in self.results:
            return self.results[name]
        if name in self.classes:
            return "object:" + name
        if name in ALWAYS:
            return ALWAYS[name]
        if any(k.arg not in {"key", "reverse", "default"} for k in node.keywords):
            return ANY
        default = self.all([k.value for k in node.keywords if k.arg == "default"], env)
        return join(default, _built(name, [self.of(a, env) for a in node.args]))

    def _method(self, owner: Type, name: str, args: list[ast.expr], env: Env) -> Type:
        match kind(owner), name, args:
            case "str" | "char", _, _:
                return OF_TEXT.get(name, ANY)
            case "list" | "deque", "copy", _:
                return owner
            case "list" | "deque", "pop" | "popleft", _:
                return element(owner)
            case "list" | "deque", _, _:
                return OF_LIST.get(name, ANY)
            case "dict", _, _ if isinstance(owner, tuple):
                return self._entry(owner[1], owner[2], name, args, env)  # type: ignore[arg-type]
            case k, _, _ if k.startswith("object:"):
                return self.results.get("." + name, ANY)
        return None if owner is None else ANY

    def _entry(self, key: Type, value: Type, name: str, args: list[ast.expr], env: Env) -> Type:
        """What a method of a dict gives."""
        match name, args:
            case "get", [_]:
                return join(value, "none")
            case "get" | "setdefault", [_, other]:
                return join(value, self.of(other, env))
            case "pop", [_]:
                return value
        views = {"keys": key, "values": value, "items": ("pair", key, value)}
        return ("iter", views[name]) if name in views else ANY


FORMS: dict[type, Callable[[Inference, Any, Env], Type]] = {
    ast.Constant: lambda infer, node, env: _constant(node.value),
    ast.Name: lambda infer, node, env: env.get(node.id, ANY),
    ast.JoinedStr: lambda infer, node, env: "str",
    ast.Compare: lambda infer, node, env: "bool",
    ast.BoolOp: lambda infer, node, env: infer.all(node.values, env),
    ast.IfExp: lambda infer, node, env: infer.all([node.body, node.orelse], env),
    ast.UnaryOp: lambda infer, node, env: (
        "bool" if isinstance(node.op, ast.Not) else SIGNED.get(infer.of(node.operand, env), ANY)
    ),
    ast.BinOp: Inference.binop,
    ast.List: lambda infer, node, env: ("list", infer.all(node.elts, env)),
    ast.Set: lambda infer, node, env: ("set", infer.all(node.elts, env)),
    ast.Tuple: lambda infer, node, env: ("tuple", infer.all(node.elts, env)),
    ast.Dict: lambda infer, node, env: (
        ANY if None in node.keys else ("dict", infer.all(node.keys, env), infer.all(node.values, env))
    ),
    ast.ListComp: lambda infer, node, env: ("list", infer.of(node.elt, env)),
    ast.SetComp: lambda infer, node, env: ("set", infer.of(node.elt, env)),
    ast.GeneratorExp: lambda infer, node, env: ("iter", infer.of(node.elt, env)),
    ast.DictComp: lambda infer, node, env: ("dict", infer.of(node.key, env), infer.of(node.value, env)),
    ast.Attribute: Inference.attribute,
    ast.Subscript: Inference.subscript,
    ast.Call: Inference.call,
}


def joined(types: list[Type]) -> Type:
    return reduce(join, types, None)


def _constant(value: object) -> Type:
    if isinstance(value, str):
        return "char" if len(value) == 1 else "str"
    name = "none" if value is None else type(value).__name__
    return name if name in IMMUTABLE else ANY


def _natural(node: ast.expr) -> bool:
    """Whether an expression is by its form an integer that is not negative."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"len", "abs"}
    value = int_value(node)
    return value is not None and value >= 0


def _operated(op: ast.operator, a: Type, b: Type, natural: bool) -> Type:
    """`natural`: the right side is an integer that is not negative."""
    if is_number(a) and is_number(b):
        match op:
            case ast.Div():
                return "float"
            case ast.Pow():
                return "int" if natural and "float" not in (a, b) else ANY
        if a == b == "bool" and isinstance(op, BITWISE):
            return "bool"
        return "float" if "float" in (a, b) else "int"
    match op:
        case ast.Add() if is_str(a) and is_str(b):
            return "str"
        case ast.Add() if kind(a) == kind(b) and kind(a) in {"list", "tuple"}:
            return join(a, b)
        case ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub() if kind(a) == kind(b) == "set":
            return join(a, b)
        case ast.Mult() if is_int(b) and (is_str(a) or kind(a) == "list"):
            return "str" if is_str(a) else a
    return ANY


def _built(name: str, types: list[Type]) -> Type:
    """What a builtin gives that depends on what it is given."""
    items = element(types[0]) if types else None
    match name, types:
        case "list" | "set" | "tuple", _:
            return (name, items)
        case "sorted", _:
            return ("list", items)
        case "reversed", _:
            return ("iter", items)
        case "enumerate", [_, *_]:
            return ("iter", ("pair", "int", items))
        case "zip", [first, second]:
            return ("iter", ("pair", element(first), element(second)))
        case "min" | "max", [_]:
            return items
        case "min" | "max", [_, *_]:
            return joined(types)
        case "sum", [_]:
            return "int" if items == "bool" else items if items in {None, "int"} else ANY
        case "abs", ["int" | "float" | None as t]:
            return t
        case "divmod", ["int", "int"]:
            return ("pair", "int", "int")
        case "dict", []:
            return ("dict", None, None)
        case "dict", [("dict", *_) as whole]:
            return whole
    return ANY
