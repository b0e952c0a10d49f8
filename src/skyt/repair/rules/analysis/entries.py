"""Entries of dicts: keys that can be asked for again, and what makes an entry where there is none."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, load, number
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.infer import dotted
from skyt.repair.rules.analysis.values.types import is_str, kind

STARTS: dict[str, ast.expr] = {
    "int": ast.Constant(value=0),
    "list": ast.List(elts=[], ctx=ast.Load()),
    "dict": ast.Dict(keys=[], values=[]),
    "set": ast.Call(func=load("set"), args=[], keywords=[]),
}
COUNTED = frozenset({"list", "tuple", "set", "deque", "iter"})
STABLE = frozenset({"int", "bool", "str", "char"})


def stable_key(key: ast.expr, scope: Scope) -> bool:
    """Whether evaluating a key again, with nothing changed in between, gives the same key."""
    if isinstance(key, ast.Name | ast.Constant):
        return True
    if isinstance(key, ast.Tuple):
        return all(stable_key(e, scope) for e in key.elts)
    return scope.type_of(key) in STABLE and scope.effects(key).pure


def start_of_default(value: ast.expr, scope: Scope) -> ast.expr | None:
    """What `defaultdict(f)` puts under a missing key."""
    if not isinstance(value, ast.Call) or dotted(value.func) != "collections.defaultdict":
        return None
    if not scope.is_module("collections") or len(value.args) != 1 or value.keywords:
        return None
    factory = value.args[0]
    if isinstance(factory, ast.Lambda):
        a = factory.args
        plain = not (a.args or a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs)
        found = [s for s in STARTS.values() if plain and same(s, factory.body)]
        return found[0] if found else None
    return STARTS.get(scope.builtin(factory))


def counted(value: ast.expr, scope: Scope) -> ast.expr | None:
    """What `Counter(e)` counts: the elements of a container that is not a dict."""
    if not isinstance(value, ast.Call) or dotted(value.func) != "collections.Counter":
        return None
    if not scope.is_module("collections") or len(value.args) != 1 or value.keywords:
        return None
    t = scope.type_of(value.args[0])
    return value.args[0] if is_str(t) or kind(t) in COUNTED else None


def empty_counter(value: ast.expr, scope: Scope) -> bool:
    named = isinstance(value, ast.Call) and dotted(value.func) == "collections.Counter"
    return named and scope.is_module("collections") and not (value.args or value.keywords)  # type: ignore[attr-defined]


def get_entry(entry: ast.Subscript, start: ast.expr) -> ast.expr:
    method = ast.Attribute(value=clone(entry.value), attr="get", ctx=ast.Load())
    return call(method, clone(entry.slice), clone(start))


def counting_loop(counts: str, source: ast.expr, item: str) -> ast.For:
    """`for item in source: counts[item] = counts.get(item, 0) + 1`."""
    entry = ast.Subscript(value=load(counts), slice=load(item), ctx=ast.Store())
    total = ast.BinOp(left=get_entry(entry, number(0)), op=ast.Add(), right=number(1))
    add = ast.Assign(targets=[entry], value=total, lineno=0)
    target = ast.Name(id=item, ctx=ast.Store())
    return ast.For(target=target, iter=source, body=[add], orelse=[], lineno=0)
