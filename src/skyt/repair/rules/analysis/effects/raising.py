"""Which operations on values of known types cannot raise. What is not listed here may."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.vocabulary import MAKERS, TOTAL_STR_METHODS
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.values.types import ANY, IMMUTABLE, Type, is_int, is_number, is_str, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

LONGEST = 10**4000  # Python refuses to write integers of more than 4300 digits
SHOWN = frozenset({"str", "char", "bool", "none", "float"})
ITERABLE = frozenset({"list", "tuple", "dict", "set", "str", "char", "deque", "iter"})
REVERSIBLE = frozenset({"list", "tuple", "str", "char", "deque"})
ORDERED = frozenset({"int", "str", "char"})


def shows_safely(node: ast.expr, scope: Scope) -> bool:
    """Whether a value can be written as text: an integer may have too many digits."""
    t = scope.type_of(node)
    if not is_int(t):
        return t in SHOWN
    if isinstance(node, ast.Name) and scope.given(node.id):
        return True  # a caller's integers can be written down
    low, high = scope.interval(node)
    return low is not None and high is not None and low > -LONGEST and high < LONGEST


def hashable(t: Type) -> bool:
    return t in IMMUTABLE or (kind(t) in {"pair", "tuple"} and all(hashable(x) for x in t[1:]))  # type: ignore[index,arg-type]


def call_raises(node: ast.Call, scope: Scope) -> bool:
    """Whether a pure call may raise, given the types of its arguments."""
    if node.keywords:
        return True
    types = [scope.type_of(a) for a in node.args]
    if isinstance(node.func, ast.Name):
        return not _total_builtin(scope.builtin(node.func), node.args, types, scope)
    if isinstance(node.func, ast.Attribute):
        return not _total_method(node.func, node, types, scope)
    return True


def _total_builtin(name: str, args: list[ast.expr], types: list[Type], scope: Scope) -> bool:
    kinds = [kind(t) for t in types]
    if name == "range":
        step = int_value(args[2]) not in (None, 0) if len(args) == 3 else True
        return 1 <= len(args) <= 3 and all(map(is_int, types)) and step
    if name in {"min", "max"}:
        return len(args) > 1 and all(map(is_int, types))
    if name in {"list", "tuple", "set", "dict", "str", "bool"} and not args:
        return True
    if name == "isinstance":
        return len(args) == 2  # the language lets only classes in
    if len(args) != 1:
        return False
    if name == "len":
        return kinds[0] in ITERABLE - {"iter"}
    if name in {"list", "tuple", "enumerate"}:
        return kinds[0] in ITERABLE
    if name == "reversed":
        return kinds[0] in REVERSIBLE
    if name in {"set", "frozenset"}:
        return kinds[0] in ITERABLE and hashable(_element(types[0]))
    if name == "sorted":
        return kinds[0] in ITERABLE and _element(types[0]) in ORDERED
    if name == "sum":
        return kinds[0] in ITERABLE and _element(types[0]) in {"int", "bool"}
    if name in {"str", "repr"}:
        return shows_safely(args[0], scope)
    if name == "bool":
        return types[0] in IMMUTABLE or kinds[0] in ITERABLE
    if name == "abs":
        return is_number(types[0])
    if name == "int":
        return types[0] in {"int", "bool"}
    if name == "ord":
        return types[0] == "char"
    return False


def _total_method(function: ast.Attribute, node: ast.Call, types: list[Type], scope: Scope) -> bool:
    name, owner = function.attr, scope.type_of(function.value)
    if isinstance(function.value, ast.Name) and scope.is_module(function.value.id):
        return _total_member(f"{function.value.id}.{name}", node, types, scope)
    if is_str(owner):
        if name == "join":
            return len(types) == 1 and kind(types[0]) in ITERABLE and is_str(_element(types[0]))
        if name in {"split", "rsplit"}:
            by = node.args[0] if node.args else None
            plain = isinstance(by, ast.Constant) and type(by.value) is str and by.value != ""
            return not node.args or (plain and len(node.args) == 1)
        if name == "splitlines":
            return not node.args
        least, most = TOTAL_STR_METHODS.get(name, (1, 0))
        return least <= len(types) <= most and all(is_str(t) for t in types)
    if kind(owner) == "dict":
        if name == "get":
            return 1 <= len(types) <= 2 and hashable(types[0])
        return name in {"keys", "values", "items", "copy"} and not types
    if kind(owner) == "list":
        return (name == "copy" and not types) or (
            name == "count" and len(types) == 1 and types[0] in IMMUTABLE and _element(owner) in IMMUTABLE
        )
    return False


def _total_member(name: str, node: ast.Call, types: list[Type], scope: Scope) -> bool:
    if name == "re.sub":
        constant = all(isinstance(a, ast.Constant) and type(a.value) is str for a in node.args[:2])
        return constant and len(types) == 3 and is_str(types[2]) and _compiles(node)
    if name in MAKERS:
        return not node.args
    if name == "math.isqrt" and len(types) == 1:
        low = scope.interval(node.args[0])[0]
        return low is not None and low >= 0
    return name == "math.gcd" and all(map(is_int, types))


def _compiles(node: ast.Call) -> bool:
    """Whether a pattern, and what takes its place, are valid."""
    import re

    pattern, new = node.args[0].value, node.args[1].value  # type: ignore[attr-defined]
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return "\\" not in new


def _element(t: Type) -> Type:
    if isinstance(t, tuple):
        return ANY if t[0] == "pair" else t[1]  # type: ignore[return-value]
    return "char" if is_str(t) else ANY


def binop_raises(node: ast.BinOp, scope: Scope) -> bool:
    a, b, op = scope.type_of(node.left), scope.type_of(node.right), node.op
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub) and kind(a) == kind(b) == "set":
        return False
    whole = a in {"int", "bool"} and b in {"int", "bool"}
    if isinstance(op, ast.Add) and (
        (is_str(a) and is_str(b)) or (kind(a) == kind(b) and kind(a) in {"list", "tuple"})
    ):
        return False
    if isinstance(op, ast.Add | ast.Sub | ast.Mult | ast.BitAnd | ast.BitOr | ast.BitXor):
        return not whole
    if isinstance(op, ast.FloorDiv | ast.Mod):
        value = int_value(node.right)
        return not (is_int(a) and is_int(b) and (value not in (None, 0) or scope.nonzero(node.right)))
    if isinstance(op, ast.Pow):
        low = scope.interval(node.right)[0]
        return not (is_int(a) and is_int(b) and low is not None and low >= 0)
    return True
