"""The words of the language: kinds of nodes, names, keywords, and small questions about them."""

from __future__ import annotations

import ast
import builtins

from skyt.repair.rules.analysis.effects.vocabulary import MODULE_MEMBERS
from skyt.repair.rules.analysis.trees.trees import OPERATORS, words

NODES = (OPERATORS - {ast.MatMult}) | {
    getattr(ast, name)
    for name in words(
        "Module FunctionDef ClassDef Import alias arguments arg Return Delete Assign AugAssign For While If "
        "Raise Expr Pass Break Continue BoolOp BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp "
        "GeneratorExp comprehension Compare Call keyword FormattedValue JoinedStr Constant Attribute "
        "Subscript Slice Name List Tuple"
    )
}
NAMES = frozenset(dir(builtins))
ERRORS = frozenset(
    n for n in NAMES if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), Exception)
) - words("StopIteration StopAsyncIteration RecursionError MemoryError SystemError")
REFLECTION = words(
    "globals locals vars eval exec compile getattr setattr hasattr delattr dir id __import__ memoryview "
    "super breakpoint open input help"
)
REFLECTING_MODULES = words("sys inspect builtins importlib gc ctypes types")
TYPES = words("int str float bool list dict set tuple frozenset")
FREE = words("typing dataclasses abc unittest doctest time random os")
KEYED = words("sorted min max .sort")
READERS = words(
    "len sum min max sorted any all list tuple set str range enumerate zip reversed dict int abs ord chr "
    "float"
)
KEYWORDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("sorted", ".sort"), words("key reverse")),
    **dict.fromkeys(("min", "max"), words("key default")),
    **dict.fromkeys((".popitem", ".move_to_end"), words("last")),
    "enumerate": words("start"),
    "print": words("end sep"),
    "re.sub": words("flags count"),
    "collections.deque": words("maxlen"),
}


def special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def called_name(function: ast.expr) -> str:
    """`len`, `math.gcd` or `.append`."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULE_MEMBERS:
            return f"{module}.{name}"
        case ast.Attribute(attr=name):
            return "." + name
    return ""


def singleton(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))


def makes_text(n: ast.AST) -> bool:
    """Whether a node may turn an object into text."""
    match n:
        case ast.Name(id="str" | "repr" | "print" | "map") | ast.Attribute(attr="format" | "join"):
            return True
    return isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))


def immutable(n: ast.expr) -> bool:
    """A constant, with a minus sign or not, or a tuple of them."""
    match n:
        case ast.Tuple(elts=elements):
            return all(map(immutable, elements))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) | ast.Constant():
            return True
    return False
