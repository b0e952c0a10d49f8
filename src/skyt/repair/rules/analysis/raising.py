"""Which operations on values of known types cannot raise. What is not listed here may."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.syntax import int_value
from skyt.repair.rules.analysis.trees import text
from skyt.repair.rules.analysis.values.types import (
    ANY,
    IMMUTABLE,
    Type,
    element,
    is_int,
    is_number,
    is_str,
    kind,
)
from skyt.repair.rules.analysis.vocabulary import MAKERS, TAKES_TEXTS, VIEWS

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

LONGEST = 10**4000  # Python refuses to write integers of more than 4300 digits
SHOWN = frozenset({"str", "char", "bool", "none", "float"})
ITERABLE = frozenset({"list", "tuple", "dict", "set", "str", "char", "deque", "iter"})
REVERSIBLE = frozenset({"list", "tuple", "str", "char", "deque"})
ORDERED = frozenset({"int", "str", "char"})
WHOLE = frozenset({"int", "bool"})


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


def _items(t: Type) -> Type:
    """What is in a container, where that is one type."""
    return ANY if kind(t) == "pair" or kind(t) not in ITERABLE else element(t)


# By builtin, whether it cannot raise when it is given one value of this type.
TOTAL: dict[str, Callable[[Type], bool]] = {
    "len": lambda t: kind(t) in ITERABLE - {"iter"},
    **dict.fromkeys(("list", "tuple", "enumerate"), lambda t: kind(t) in ITERABLE),
    **dict.fromkeys(("set", "frozenset"), lambda t: kind(t) in ITERABLE and hashable(_items(t))),
    "reversed": lambda t: kind(t) in REVERSIBLE,
    "sorted": lambda t: _items(t) in ORDERED,
    "sum": lambda t: _items(t) in WHOLE,
    "bool": lambda t: t in IMMUTABLE or kind(t) in ITERABLE,
    "abs": is_number,
    "int": lambda t: t in WHOLE,
    "ord": lambda t: t == "char",
    "range": is_int,
}


def call_raises(node: ast.Call, scope: Scope) -> bool:
    """Whether a pure call may raise, given the types of its arguments."""
    if node.keywords:
        return True
    types = [scope.type_of(a) for a in node.args]
    if isinstance(node.func, ast.Name):
        return not _total_builtin(scope.builtin(node.func), node.args, types, scope)
    return not (isinstance(node.func, ast.Attribute) and _total_method(node.func, node.args, types, scope))


def _total_builtin(name: str, args: list[ast.expr], types: list[Type], scope: Scope) -> bool:
    if name in {"str", "repr"} and args:
        return len(args) == 1 and shows_safely(args[0], scope)
    match len(args):
        case 0:
            return name in {"list", "tuple", "set", "dict", "str", "bool"}
        case 1:
            return name in TOTAL and TOTAL[name](types[0])
    if name in {"min", "max"} or (name == "range" and len(args) == 2):
        return all(map(is_int, types))
    if name == "zip":
        return all(kind(t) in ITERABLE for t in types)
    if name == "range":
        return len(args) == 3 and all(map(is_int, types)) and int_value(args[2]) not in (None, 0)
    return name == "isinstance" and len(args) == 2  # the language lets only classes in


def _total_method(function: ast.Attribute, args: list[ast.expr], types: list[Type], scope: Scope) -> bool:
    name, owner, count = function.attr, scope.type_of(function.value), len(args)
    if scope.is_member(function):
        return _total_member(text(function), args, types, scope)
    if isinstance(function.value, ast.Call) and text(function.value.func) == "collections.Counter":
        return name in VIEWS and not args
    match kind(owner):
        case "str" | "char" if name == "join":
            return count == 1 and is_str(_items(types[0]))
        case "str" | "char" if name in {"split", "rsplit", "splitlines"}:
            by = args[0].value if args and isinstance(args[0], ast.Constant) else None
            return not args or (count == 1 and type(by) is str and by != "" and name != "splitlines")
        case "str" | "char":
            return count in TAKES_TEXTS.get(name, ()) and all(map(is_str, types))
        case "dict":
            if name == "get":
                return 1 <= count <= 2 and hashable(types[0])
            return not args and (name in VIEWS or name == "copy")
        case "list":
            if name == "count":
                return count == 1 and types[0] in IMMUTABLE and _items(owner) in IMMUTABLE
            return name == "copy" and not args
    return False


def _total_member(name: str, args: list[ast.expr], types: list[Type], scope: Scope) -> bool:
    if name == "math.isqrt":
        return len(args) == 1 and scope.at_least(0, args[0])
    return all(map(is_int, types)) if name == "math.gcd" else name in MAKERS and not args


def binop_raises(node: ast.BinOp, scope: Scope) -> bool:
    a, b = scope.type_of(node.left), scope.type_of(node.right)
    whole, alike = a in WHOLE and b in WHOLE, kind(a) == kind(b)
    match node.op:
        case ast.Add():
            return not (whole or (is_str(a) and is_str(b)) or (alike and kind(a) in {"list", "tuple"}))
        case ast.Sub() | ast.BitAnd() | ast.BitOr() | ast.BitXor():
            return not (whole or (alike and kind(a) == "set"))
        case ast.Mult():
            return not whole
        case ast.FloorDiv() | ast.Mod():
            return not (is_int(a) and is_int(b) and scope.nonzero(node.right))
        case ast.Pow():
            return not (is_int(a) and is_int(b) and scope.at_least(0, node.right))
    return True
