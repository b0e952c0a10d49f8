"""Effects of calls: builtins, methods that read and methods that change, functions of the program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.raising import ITERABLE, ORDERED, call_raises, hashable
from skyt.repair.rules.analysis.effects.table import ATTRIBUTES, Effects, add, everything, glance, read, root
from skyt.repair.rules.analysis.effects.vocabulary import (
    MAKERS,
    MODULE_MEMBERS,
    MUTATORS,
    PURE_BUILTINS,
    PURE_METHODS,
    SHALLOW,
)
from skyt.repair.rules.analysis.trees.trees import walk
from skyt.repair.rules.analysis.values.types import SIZED, Type, element, is_int, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

LARGEST = 2**62  # no container has as many elements


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str], own: Container[str] = ()) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments). `own` are the
    names of the program's functions, and of its methods with a dot."""
    match node.func:
        case ast.Name(id=name):
            known = name in pure or name in PURE_BUILTINS
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULE_MEMBERS:
            known = module != "collections" or f"{module}.{name}" in MAKERS
        case ast.Attribute(attr=name):
            known = name in PURE_METHODS and "." + name not in own
        case _:
            known = False
    return known and pure_callbacks(node, pure, own)


def pure_callbacks(node: ast.Call, pure: Container[str], own: Container[str]) -> bool:
    """Whether what a call is given to call has no effects."""
    for a in _arguments(node):
        if isinstance(a, ast.Lambda):
            calls = [n for n in walk(a.body) if isinstance(n, ast.Call)]
            if not all(mutates_receiver(n) is None and pure_call(n, pure, own) for n in calls):
                return False
        if isinstance(a, ast.Name) and a.id in own and a.id not in pure:
            return False
    return True


def called(node: ast.Call, scope: Scope, found: Effects) -> None:
    function = node.func
    if isinstance(function, ast.Attribute) and not scope.is_member(function):
        add(function.value, scope, found)
    for a in _arguments(node):
        add(a, scope, found)
    call_itself(node, scope, found)


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(k.value for k in node.keywords)]


def call_itself(node: ast.Call, scope: Scope, found: Effects) -> None:
    """What a call does once its arguments are there."""
    function, arguments, receiver = node.func, _arguments(node), mutates_receiver(node)
    if not isinstance(function, ast.Name | ast.Attribute):
        everything(node, scope, found)
        return
    if receiver is not None:
        _change(node, receiver, scope, found)
    elif pure_call(node, scope.pure, scope.program.by_name) and _knows(function, scope):
        name = function.id if isinstance(function, ast.Name) else function.attr
        look = glance if name in SHALLOW else read
        for a in arguments:
            look(a, scope, found)
        if isinstance(function, ast.Attribute):
            glance(function.value, scope, found)
        elif name in scope.pure:
            names, attributes = scope.program.outside.of(name)
            found.reads |= names
            found.heap_reads |= names | ({ATTRIBUTES} if attributes else set())
        found.fails(call_raises(node, scope))
    else:
        found.fails()
        found.other = True


def _knows(function: ast.Name | ast.Attribute, scope: Scope) -> bool:
    """Whether a call means what its name says: a builtin that is not hidden, a method of a builtin type."""
    if isinstance(function, ast.Name):
        return function.id in scope.pure or bool(scope.builtin(function))
    return not kind(scope.type_of(function.value)).startswith("object:")


def _change(node: ast.Call, receiver: ast.expr, scope: Scope, found: Effects) -> None:
    name, t = node.func.attr, scope.type_of(receiver)  # type: ignore[attr-defined]
    own = scope.program.by_name
    found.heap_writes.add(root(receiver))
    found.heap_reads.add(root(receiver))
    if kind(t) not in SIZED or "." + name in own:
        found.fails()
        found.other = True
        return
    if node.keywords and not pure_callbacks(node, scope.pure, own):
        found.other = True
    if name in {"extend", "update", "extendleft", "remove", "index"}:
        for a in node.args:
            read(a, scope, found)
    types = [scope.type_of(a) for a in node.args]
    fits, error = CHANGES.get((kind(t), name, len(types)), (None, ""))
    if fits is None or node.keywords or not fits(t, *types):
        found.fails()
    elif error and (types or not scope.nonempty(receiver)):
        found.fails(True, error)
    if name in {"insert", "pop"} and kind(t) == "list" and node.args:
        found.fails(not _fits_index(node.args[0], scope), "OverflowError")


def _fits_index(node: ast.expr, scope: Scope) -> bool:
    """Whether an index surely is small enough for a method: a larger one raises something else."""
    low, high = scope.interval(node)
    return low is not None and high is not None and low >= -LARGEST and high <= LARGEST


def _always(*types: Type) -> bool:
    return True


def _key(t: Type, key: Type, value: Type = None) -> bool:
    return hashable(key)


def _index(t: Type, index: Type, value: Type = None) -> bool:
    return is_int(index)


# By container, method and number of arguments: whether it bears these types (its own, its arguments'), and
# what it may raise then. What is not listed may raise anything.
CHANGES: dict[tuple[str, str, int], tuple[Callable[..., bool], str]] = {
    **{(owner, "clear", 0): (_always, "") for owner in ("list", "deque", "dict", "set")},
    **{(owner, "reverse", 0): (_always, "") for owner in ("list", "deque")},
    **{(owner, "append", 1): (_always, "") for owner in ("list", "deque")},
    **{(owner, "extend", 1): (lambda t, more: kind(more) in ITERABLE, "") for owner in ("list", "deque")},
    **{("set", name, 1): (_key, "") for name in ("add", "discard")},
    **{(owner, "pop", 0): (_always, "IndexError") for owner in ("list", "deque")},
    ("deque", "popleft", 0): (_always, "IndexError"),
    ("deque", "appendleft", 1): (_always, ""),
    ("list", "pop", 1): (_index, "IndexError"),
    ("list", "insert", 2): (_index, ""),
    ("list", "sort", 0): (lambda t: element(t) in ORDERED, ""),
    ("dict", "pop", 1): (_key, "KeyError"),
    ("dict", "pop", 2): (_key, ""),
    ("dict", "setdefault", 2): (_key, ""),
}
