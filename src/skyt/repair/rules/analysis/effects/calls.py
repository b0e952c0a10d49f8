"""Effects of calls: builtins, methods that read and methods that change, functions of the program."""

from __future__ import annotations

import ast
from collections.abc import Container
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.commuting import ATTRIBUTES, Effects
from skyt.repair.rules.analysis.effects.raising import ITERABLE, call_raises, hashable
from skyt.repair.rules.analysis.effects.table import add, everything, glance, read, root
from skyt.repair.rules.analysis.effects.vocabulary import (
    MAKERS,
    MODULE_MEMBERS,
    MUTATORS,
    PURE_BUILTINS,
    PURE_METHODS,
    UNKNOWN,
)
from skyt.repair.rules.analysis.trees.trees import walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, SIZED, Type, element, is_int, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str], own: Container[str] = ()) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments). `own` are the
    names of the program's functions, and of its methods with a dot."""
    function = node.func
    if isinstance(function, ast.Name):
        known = function.id in pure or function.id in PURE_BUILTINS
        return known and _pure_callbacks(node, pure, own)
    if isinstance(function, ast.Attribute) and _pure_callbacks(node, pure, own):
        owner = function.value
        if isinstance(owner, ast.Name) and owner.id in MODULE_MEMBERS:
            return f"{owner.id}.{function.attr}" in MAKERS or owner.id != "collections"
        return function.attr in PURE_METHODS and "." + function.attr not in own
    return False


def _pure_callbacks(node: ast.Call, pure: Container[str], own: Container[str]) -> bool:
    """Whether what a call is given to call has no effects."""
    for a in (*node.args, *(k.value for k in node.keywords)):
        if isinstance(a, ast.Lambda):
            calls = [n for n in walk(a.body) if isinstance(n, ast.Call)]
            if not all(mutates_receiver(n) is None and pure_call(n, pure, own) for n in calls):
                return False
        if isinstance(a, ast.Name) and a.id in own and a.id not in pure:
            return False
    return True


SHALLOW = frozenset(
    [
        *(
            "len",
            "list",
            "tuple",
            "set",
            "dict",
            "frozenset",
            "range",
            "enumerate",
            "zip",
            "reversed",
            "bool",
        ),
        *("isinstance", "keys", "values", "items", "get", "copy", "deque", "OrderedDict", "next"),
    ]
)


def called(node: ast.Call, scope: Scope, found: Effects) -> None:
    function = node.func
    arguments = [*node.args, *(k.value for k in node.keywords)]
    if isinstance(function, ast.Attribute):
        module = isinstance(function.value, ast.Name) and scope.is_module(function.value.id)
        if not module:
            add(function.value, scope, found)
    elif not isinstance(function, ast.Name):
        everything(node, scope, found)
        return
    for a in arguments:
        add(a, scope, found)
    receiver = mutates_receiver(node)
    if receiver is not None:
        _change(node, receiver, scope, found)
    elif pure_call(node, scope.pure, scope.program.by_name) and _knows(node, scope):
        name = function.id if isinstance(function, ast.Name) else function.attr
        look = glance if name in SHALLOW else read
        for a in arguments:
            look(a, scope, found)
        if isinstance(function, ast.Name) and function.id in scope.pure:
            names, attributes = scope.program.outside.of(function.id)
            found.reads |= names
            found.heap_reads |= names | ({ATTRIBUTES} if attributes else set())
        if isinstance(function, ast.Attribute) and scope.type_of(function.value) not in IMMUTABLE:
            found.heap_reads.add(root(function.value))
        found.fails(call_raises(node, scope))
    else:
        found.fails()
        found.other = True


def _knows(node: ast.Call, scope: Scope) -> bool:
    """Whether a call means what its name says: a builtin that is not hidden, a method of a builtin type."""
    if isinstance(node.func, ast.Name):
        return node.func.id in scope.pure or bool(scope.builtin(node.func))
    owner = kind(scope.type_of(node.func.value))  # type: ignore[attr-defined]
    return not owner.startswith("object:")


def _change(node: ast.Call, receiver: ast.expr, scope: Scope, found: Effects) -> None:
    name, t = node.func.attr, scope.type_of(receiver)  # type: ignore[attr-defined]
    owner = kind(t)
    found.heap_writes.add(root(receiver))
    found.heap_reads.add(root(receiver))
    if owner not in SIZED or "." + name in scope.program.by_name:
        found.fails()
        found.other = True
        return
    if node.keywords and not pure_call(ast.Call(ast.Name("sorted"), [], node.keywords), scope.pure,
                                       scope.program.by_name):  # fmt: skip
        found.other = True
    for a in node.args:
        if name in {"extend", "update", "extendleft", "remove", "index"}:
            read(a, scope, found)
    types = [scope.type_of(a) for a in node.args]
    fails, error = _change_raises(name, owner, t, types, node, scope)
    found.fails(fails, error)


def _change_raises(
    name: str, owner: str, t: Type, types: list[Type], node: ast.Call, scope: Scope
) -> tuple[bool, str]:
    """(whether a method that changes its object may raise, what)."""
    count = len(types)
    if node.keywords:
        return True, UNKNOWN
    if name == "append" and owner in {"list", "deque"}:
        return count != 1, UNKNOWN
    if name == "appendleft" and owner == "deque":
        return count != 1, UNKNOWN
    if name == "clear" and owner != "tuple":
        return count != 0, UNKNOWN
    if name == "extend" and owner in {"list", "deque"}:
        return not (count == 1 and kind(types[0]) in ITERABLE), UNKNOWN
    if name in {"add", "discard"} and owner == "set":
        return not (count == 1 and hashable(types[0])), UNKNOWN
    if name == "reverse" and owner in {"list", "deque"}:
        return count != 0, UNKNOWN
    if name == "insert" and owner == "list":
        return not (count == 2 and is_int(types[0])), UNKNOWN
    if name == "sort" and owner == "list":
        return not (count == 0 and element(t) in {"int", "str", "char"}), UNKNOWN
    if name in {"pop", "popleft"} and owner in {"list", "deque"} and count == 0:
        known = owner == "deque" or name == "pop"
        return not scope.nonempty(node.func.value), "IndexError" if known else UNKNOWN  # type: ignore[attr-defined]
    if name == "pop" and owner == "list" and count == 1 and is_int(types[0]):
        return True, "IndexError"
    if name == "pop" and owner == "dict" and count in (1, 2) and hashable(types[0]):
        return count == 1, "KeyError"
    if name == "setdefault" and owner == "dict":
        return not (count == 2 and hashable(types[0])), UNKNOWN
    return True, UNKNOWN
