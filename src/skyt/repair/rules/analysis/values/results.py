"""What operators, builtins and methods give, for operands of known types."""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyt.repair.rules.analysis.values.types import ANY, Type, element, is_int, is_number, is_str, join, kind
from skyt.repair.rules.analysis.vocabulary import TEXT_QUESTIONS, TEXT_TO_TEXT

# What builtins and methods of str give, whatever they are given.
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
    "math.prod": ANY,
    "collections.OrderedDict": ("dict", None, None),
    "collections.deque": ("deque", None),
}


def _items(types: list[Type]) -> Type:
    """What the first argument holds; nothing where there is none."""
    return element(types[0]) if types else None


def _divmod(types: list[Type]) -> Type:
    if len(types) != 2 or None in types:
        return ANY if len(types) != 2 else None
    return ("pair", "int", "int") if all(map(is_int, types)) else ANY


def _sum(types: list[Type]) -> Type:
    item = _items(types)
    return ANY if len(types) != 1 else None if item is None else "int" if item in {"int", "bool"} else ANY


def _zip(types: list[Type]) -> Type:
    return ("iter", ("pair", *map(element, types))) if len(types) == 2 else ANY


def _dict(types: list[Type]) -> Type:
    return ("dict", None, None) if not types else types[0] if kind(types[0]) == "dict" else ANY


def _extreme(types: list[Type]) -> Type:
    return joined(types) if len(types) > 1 else _items(types) if types else ANY


# What builtins give that depends on what they are given.
RESULTS: dict[str, Callable[[list[Type]], Type]] = {
    **dict.fromkeys(("list", "sorted"), lambda types: ("list", _items(types))),
    "set": lambda types: ("set", _items(types)),
    "tuple": lambda types: ("tuple", _items(types)),
    "reversed": lambda types: ("iter", _items(types)),
    "enumerate": lambda types: ("iter", ("pair", "int", _items(types))) if types else ANY,
    "abs": lambda types: types[0] if types and types[0] in {"int", "float", None} else ANY,
    **dict.fromkeys(("min", "max"), _extreme),
    "dict": _dict,
    "zip": _zip,
    "divmod": _divmod,
    "sum": _sum,
}


def joined(types: list[Type]) -> Type:
    result: Type = None
    for t in types:
        result = join(result, t)
    return result


def operator_result(op: ast.operator, a: Type, b: Type, natural: bool) -> Type:
    """`natural`: the right side is an integer that is not negative."""
    if is_number(a) and is_number(b):
        match op:
            case ast.Div():
                return "float"
            case ast.Pow():
                return "int" if natural and "float" not in (a, b) else ANY
            case ast.BitAnd() | ast.BitOr() | ast.BitXor() if a == b == "bool":
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
        case ast.Mod() if is_str(a):
            return "str"
    return ANY
