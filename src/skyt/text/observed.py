"""What of its own text a program could read while it runs: its docstrings, or its lines.

A program that names no way to them cannot read them. Whatever could be such a way counts, so that some
programs keep a docstring that they never read.
"""

from __future__ import annotations

import ast

DOCSTRINGS, LINES = "docstrings", "lines"
# Ways to attributes whose names are not in the text, or to namespaces as a whole.
_BUILTINS = frozenset({"getattr", "vars", "globals", "locals", "dir", "help", "eval", "exec", "compile"})
_ATTRIBUTES = frozenset({"attrgetter", "methodcaller", "format_map", "getattr_static"})
_MODULES = frozenset({"gc", "pydoc", "doctest", "unittest", "importlib", "pickle", "copyreg"})
_LINE_MODULES = frozenset({"inspect", "traceback", "linecache", "trace", "tracemalloc"})
_LINE_NAMES = frozenset({
    "tb_lineno", "f_lineno", "co_firstlineno", "co_lines", "co_positions", "co_linetable", "co_lnotab",
    "lineno", "_getframe", "tb_frame", "__traceback__", "exc_info", "__code__", "gi_code", "settrace",
    "setprofile",
})  # fmt: skip
# Special names that lead to no docstring.
_HARMLESS = frozenset({
    "__name__", "__main__", "__class__", "__file__", "__all__", "__version__", "__author__", "__future__",
    "__init__", "__new__", "__del__", "__call__", "__repr__", "__str__", "__bytes__", "__hash__", "__bool__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__next__",
    "__reversed__", "__contains__", "__getitem__", "__setitem__", "__delitem__", "__missing__", "__enter__",
    "__exit__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__", "__post_init__",
    "__slots__", "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__",
    "__imul__",
    "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__divmod__",
    "__pow__", "__rpow__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__neg__", "__pos__",
    "__abs__", "__invert__", "__int__", "__float__", "__complex__", "__index__", "__round__", "__copy__",
    "__deepcopy__", "__func__", "__self__", "__cause__", "__context__", "__qualname__", "__module__",
})  # fmt: skip


def observed(tree: ast.Module) -> frozenset[str]:
    """`DOCSTRINGS` where the program could read a docstring, `LINES` where it could read its line numbers."""
    ways: set[str] = set()
    for node in ast.walk(tree):
        modules, names = _modules(node), _names(node)
        if not _LINE_NAMES.isdisjoint(names) or not _LINE_MODULES.isdisjoint(modules):
            return frozenset({DOCSTRINGS, LINES})
        special = any(name[:2] == "__" and name not in _HARMLESS for name in names)
        if special or not _ATTRIBUTES.isdisjoint(names) or not _MODULES.isdisjoint(modules) or _reads(node):
            ways.add(DOCSTRINGS)
    return frozenset(ways)


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [(node.module or "").partition(".")[0]] if isinstance(node, ast.ImportFrom) else []


def _names(node: ast.AST) -> list[str]:
    """The names that a node takes from somewhere, also those in a string."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return [node.value]
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    return node.kwd_attrs if isinstance(node, ast.MatchClass) else []


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _BUILTINS
    if isinstance(node, ast.ClassDef):  # a metaclass sees the whole namespace
        makers = {ast.unparse(keyword.value) for keyword in node.keywords}
        return not makers <= {"ABCMeta", "abc.ABCMeta"} or any(
            getattr(b, "id", "") == "type" for b in node.bases
        )
    if isinstance(node, ast.Attribute) and node.attr == "format":
        return not isinstance(node.value, ast.Constant) or _looks_up(node.value.value)
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type" and len(node.args) == 3


def _looks_up(template: object) -> bool:
    """Whether a template for `format` takes attributes or items of its arguments."""
    fields = template.split("{")[1:] if isinstance(template, str) else [""]
    return any(set(field.partition("}")[0].partition(":")[0]) & set(".[") for field in fields)
