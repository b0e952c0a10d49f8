"""The words of the language: kinds of nodes, names, keywords, and small questions about them."""

from __future__ import annotations

import ast
import builtins

from skyt.repair.rules.analysis.effects.vocabulary import MODULE_MEMBERS

NODES = frozenset(
    [
        *(ast.Module, ast.FunctionDef, ast.ClassDef, ast.Import, ast.alias, ast.arguments, ast.arg),
        *(ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Raise),
        *(ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Lambda),
        *(ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        *(ast.comprehension, ast.Compare, ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr),
        *(ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.List, ast.Tuple),
        *(ast.And, ast.Or, ast.Not, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
        *(ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Invert, ast.UAdd),
        *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
    ]
)
NAMES = frozenset(dir(builtins))
ERRORS = frozenset(
    n for n in NAMES if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), Exception)
) - {"StopIteration", "StopAsyncIteration", "RecursionError", "MemoryError", "SystemError"}
REFLECTION = frozenset(
    [
        *("globals", "locals", "vars", "eval", "exec", "compile", "getattr", "setattr", "hasattr", "delattr"),
        *("dir", "id", "__import__", "memoryview", "super", "breakpoint", "open", "input", "help"),
    ]
)
TYPES = frozenset({"int", "str", "float", "bool", "list", "dict", "set", "tuple", "frozenset"})
FREE = frozenset({"typing", "dataclasses", "abc", "unittest", "doctest", "time", "random", "os"})
KEYED = frozenset({"sorted", "min", "max", ".sort"})
READERS = frozenset(
    {"len", "sum", "min", "max", "sorted", "any", "all", "list", "tuple", "set", "str", "range"}
) | {*("enumerate", "zip", "reversed", "dict", "int", "abs", "ord", "chr", "float")}
KEYWORDS: dict[str, frozenset[str | None]] = {
    "sorted": frozenset({"key", "reverse"}),
    ".sort": frozenset({"key", "reverse"}),
    "min": frozenset({"key", "default"}),
    "max": frozenset({"key", "default"}),
    "enumerate": frozenset({"start"}),
    "print": frozenset({"end", "sep"}),
    "re.sub": frozenset({"flags", "count"}),
    "collections.deque": frozenset({"maxlen"}),
    ".popitem": frozenset({"last"}),
    ".move_to_end": frozenset({"last"}),
}


def special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def called_name(function: ast.expr) -> str:
    """`len`, `math.gcd` or `.append`."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        owner = function.value
        if isinstance(owner, ast.Name) and owner.id in MODULE_MEMBERS:
            return f"{owner.id}.{function.attr}"
        return "." + function.attr
    return ""


def singleton(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))


def makes_text(n: ast.AST) -> bool:
    """Whether a node may turn an object into text."""
    if isinstance(n, ast.Name):
        return n.id in {"str", "repr", "print", "map"}
    if isinstance(n, ast.Attribute):
        return n.attr in {"format", "join"}
    return isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))


def minus(n: ast.expr) -> bool:
    return isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and isinstance(n.operand, ast.Constant)


def immutable(n: ast.expr) -> bool:
    if isinstance(n, ast.Tuple):
        return all(map(immutable, n.elts))
    return isinstance(n, ast.Constant) or minus(n)
