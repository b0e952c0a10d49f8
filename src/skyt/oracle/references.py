"""What a program refers to beyond itself: builtins, modules, methods, and ways around saying so.

References count, not only calls: `s = sorted` is as good as a call. A name that the program binds itself is
its own; so is an attribute of an object that can only be of one of its own classes. What cannot be told is
taken for a reference. Names that come about while the program runs are left to the sandbox, which enforces
the same rules there.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
import types
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache

from skyt.oracle.scopes import Classes, builtin_names
from skyt.sandbox.enforce import DYNAMIC, FREE_IMPORTS, LEADS_OUT
from skyt.sandbox.pool import MODULES

_HIDDEN = {"__import__", "__builtins__", "__loader__", "__spec__"}
_WAYS_OUT = {*(name for names in LEADS_OUT.values() for name in names), "__getattribute__", *_HIDDEN}
_BY_NAME = {"getattr", "attrgetter", "methodcaller", "getattr_static"}
_NAMESPACES = {"vars", "globals", "locals", "dir"}
_TYPE_SHAPES = (
    ast.Name
    | ast.Attribute
    | ast.Subscript
    | ast.Tuple
    | ast.List
    | ast.Constant
    | ast.BinOp
    | ast.BitOr
    | ast.Load
)


@dataclass(frozen=True, order=True)
class Reference:
    """One thing a program refers to; `how` is a verb: imports, calls, refers to, reaches."""

    how: str
    what: str

    def __str__(self) -> str:
        return f"{self.how} {self.what}"[:120]


def references(tree: ast.Module, imports: Set[str], forbidden: Set[str]) -> list[Reference]:
    """Everything the program refers to and may not, given the modules and names of a contract."""
    return [*sorted({*_imported(tree, FREE_IMPORTS | imports)}), *sorted({*_used(tree, forbidden)})]


def _imported(tree: ast.Module, allowed: Set[str]) -> Iterator[Reference]:
    """Modules that are imported, or reached through one that may be."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if top not in allowed:
                    yield Reference("imports", top)
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            top = module.partition(".")[0]
            if node.level:
                yield Reference("imports", "a relative module")
            elif top not in allowed:
                yield Reference("imports", top)
            else:
                for alias in node.names:
                    if (other := _leads_to(module, alias.name)) and other not in allowed:
                        yield Reference("imports", other)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            module = aliases[node.value.id]
            if (other := _leads_to(module, node.attr)) and other not in allowed:
                yield Reference("reaches", f"the module {other}")


@lru_cache(maxsize=1024)
def _leads_to(module: str, name: str) -> str | None:
    """The other module that an attribute of a module is, if it is one.

    Only modules that the sandbox imports for itself are looked into: a program must not choose what is
    imported here.
    """
    if module not in MODULES:
        return None
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, types.ModuleType) or sys.modules.get(f"{module}.{name}") is found:
        return None
    return found.__name__.partition(".")[0]


def _used(tree: ast.Module, forbidden: Set[str]) -> Iterator[Reference]:
    """Names, attributes and strings that stand for something the contract rules out."""
    watched = forbidden | DYNAMIC | _HIDDEN
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    starred = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
    names = watched if starred else watched & {*vars(builtins), *_HIDDEN}  # others can only be its own
    builtin = builtin_names(tree, names, _type_names(tree, forbidden))
    classes: Classes | None = None

    def how(node: ast.AST) -> str:
        return "calls" if id(node) in called else "refers to"

    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) in builtin:
            yield Reference(how(node), node.id)
        elif isinstance(node, ast.ImportFrom):
            yield from (Reference("refers to", alias.name) for alias in node.names if alias.name in forbidden)
        elif isinstance(node, ast.Attribute):
            if node.attr in _WAYS_OUT:
                yield Reference("reaches", node.attr)
            elif node.attr in forbidden and isinstance(node.ctx, ast.Load):
                classes = classes or Classes(tree)
                if not classes.own(node.value, node.attr):
                    yield Reference(how(node), node.attr)
        elif isinstance(node, ast.MatchClass):
            yield from (
                Reference("reaches", name) for name in node.kwd_attrs if name in _WAYS_OUT | forbidden
            )
        elif isinstance(node, ast.Constant) and node.value in _WAYS_OUT:
            yield Reference("refers to", str(node.value))
        elif isinstance(node, ast.Call) and _called_name(node) in _BY_NAME:
            text = next((t for t in map(_text, node.args) if t in watched | _WAYS_OUT), None)
            classes = classes or Classes(tree)
            if text is not None and not (len(node.args) > 1 and classes.own(node.args[0], text)):
                yield Reference("refers to", text)
        elif isinstance(node, ast.Subscript) and _is_namespace(node.value):
            text = _text(node.slice)
            if text is not None and text in watched:
                yield Reference("refers to", text)


def _called_name(call: ast.Call) -> str:
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _is_namespace(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _called_name(node) in _NAMESPACES
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _text(node: ast.expr) -> str | None:
    """The string that an expression of constants gives: 'so' + 'rt', f'sort', 'tros'[::-1]."""
    if not isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr | ast.Subscript | ast.Call):
        return None
    parts = list(ast.walk(node))
    if len(parts) > 30 or any(isinstance(part, ast.Name) for part in parts):
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        inside = [_text(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values]
        return None if None in inside else "".join(filter(None, inside))
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        text = _text(node.value)
        return None if text is None else text[::-1]
    return None


def _type_names(tree: ast.Module, forbidden: Set[str]) -> set[int]:
    """Names of forbidden types in annotations and `isinstance`, where they are not there to be called."""
    kinds = {name for name in forbidden if isinstance(getattr(builtins, name, None), type)}
    if not kinds:
        return set()
    places: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            places.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            places.append(node.returns)
        elif isinstance(node, ast.Call) and _called_name(node) in ("isinstance", "issubclass"):
            places += node.args[1:2]
    return {
        id(name)
        for place in places
        if place is not None and all(isinstance(part, _TYPE_SHAPES) for part in ast.walk(place))
        for name in ast.walk(place)
        if isinstance(name, ast.Name) and name.id in kinds
    }
