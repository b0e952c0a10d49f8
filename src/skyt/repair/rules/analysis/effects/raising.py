"""Which operations on values of known types can raise."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.vocabulary import MAKERS, TOTAL_STR_METHODS
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.values.types import ANY, IMMUTABLE, Type, is_int, is_number, is_str, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope


def call_raises(node: ast.Call, scope: Scope) -> bool:
    """Whether a pure call may raise, given the types of its arguments."""
    function = node.func
    types = [scope.type_of(a) for a in node.args]
    if any(k.arg in {"key", None} for k in node.keywords) or any(
        isinstance(a, ast.Starred) for a in node.args
    ):
        return True
    if isinstance(function, ast.Name):
        if function.id == "len" or function.id in {"list", "tuple", "set", "enumerate", "reversed", "sorted"}:
            kinds = {"list", "tuple", "dict", "set", "str", "char", "deque"} | (
                set() if function.id == "len" else {"iter"}
            )
            plain = function.id not in {"set", "sorted"} or all(
                _element(t) in {"int", "str", "char"} for t in types
            )
            return not (types and all(kind(t) in kinds for t in types) and plain)
        if function.id == "range":
            return not all(is_int(t) for t in types) or (
                len(types) == 3 and int_value(node.args[2]) in (None, 0)
            )
        if function.id in {"str", "repr", "bool", "abs"}:
            return not all(t in IMMUTABLE for t in types) or (
                function.id == "abs" and not is_number(types[0])
            )
        if function.id == "isinstance":
            return False
        if function.id in {"min", "max"} and len(types) > 1:
            return not all(is_int(t) for t in types)
        if function.id == "int":
            return not (len(types) == 1 and types[0] in {"int", "bool"})
        return True
    if isinstance(function, ast.Attribute):
        owner = scope.type_of(function.value)
        if is_str(owner):
            if function.attr == "join":
                return not (len(types) == 1 and is_str(_element(types[0])))
            if function.attr in {"split", "rsplit", "splitlines"}:
                by = node.args[0] if len(node.args) == 1 else None
                plain = isinstance(by, ast.Constant) and type(by.value) is str and by.value != ""
                return bool(node.keywords) or (bool(node.args) and not plain)
            return function.attr not in TOTAL_STR_METHODS or not all(is_str(t) for t in types)
        if kind(owner) == "dict":
            return function.attr not in {"keys", "values", "items"} and not (
                function.attr == "get" and types[0] in IMMUTABLE
            )
        if kind(owner) in {"list"}:
            return function.attr not in {"copy"}
        if isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr == "sub":
            constant = all(isinstance(a, ast.Constant) for a in node.args[:2])
            return not (constant and len(types) == 3 and is_str(types[2]))
        if isinstance(function.value, ast.Name) and f"{function.value.id}.{function.attr}" in MAKERS:
            return bool(node.args)
        if isinstance(function.value, ast.Name) and f"{function.value.id}.{function.attr}" == "math.isqrt":
            low = scope.interval(node.args[0])[0] if len(node.args) == 1 else None
            return low is None or low < 0
    return True


def _element(t: Type) -> Type:
    return t[1] if isinstance(t, tuple) else "char" if is_str(t) else ANY  # type: ignore[return-value]


def binop_raises(node: ast.BinOp, scope: Scope) -> bool:
    a, b = scope.type_of(node.left), scope.type_of(node.right)
    if isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub) and kind(a) == kind(b) == "set":
        return False
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        if isinstance(node.op, ast.Add) and (
            (is_str(a) and is_str(b)) or (kind(a) == kind(b) and kind(a) in {"list", "tuple"})
        ):
            return False
        return not (is_int(a) and is_int(b))
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        value = int_value(node.right)
        return not (is_int(a) and is_int(b) and (value not in (None, 0) or scope.nonzero(node.right)))
    if isinstance(node.op, ast.Pow):
        low = scope.interval(node.right)[0]
        return not (is_int(a) and is_int(b) and low is not None and low >= 0)
    return True
