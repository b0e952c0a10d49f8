"""Assignments: split, expanded and dropped, so that only what carries information is left."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.analysis.values.types import IMMUTABLE, kind
from skyt.repair.rules.patterns.conditions import of_kind
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import Place, statement


def simple_target(s: ast.stmt) -> str | None:
    """The name that `name = value` assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


def private(name: str, place: Place) -> bool:
    """Whether a name is a local that no nested function sees and no handler can find."""
    info = place.info
    return name not in place.context.liveness(info.node).always


rewrite(
    "split-chained",
    ("x = y = e", "x = e\ny = e"),
    ("x = y = z = e", "x = e\ny = e\nz = e"),
    needs=[of_kind("int bool str none", "e")],
    because="every variable gets the same value, left to right, and evaluating it again gives it again",
    fires=("n: int", "a = b = 0\nreturn a + b + n"),
    keeps=("n: int", "a = b = []\na.append(n)\nreturn b"),
)


@statement(
    ast.Assign,
    needs="an order of the parts in which no part reads what an earlier one stored",
    sound="all values are then the same as before any store; a local that is stored earlier cannot be seen",
    fires=("n: int", "a, b = 0, n\nreturn a - b"),
    keeps=("a: int; b: int", "a, b = b, a\nreturn a - b"),
)
def split_tuple(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    if not (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple)):
        return None
    targets, value = s.targets[0].elts, s.value
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
        return None
    parts: list[ast.stmt] = [
        ast.Assign(targets=[t], value=v, lineno=0) for t, v in zip(targets, value.elts, strict=True)
    ]
    ordered = _sequence(parts, value.elts, targets, place, place.before(i))
    if ordered is not None:
        return [*ordered]
    return None


def _sequence(
    parts: list[ast.stmt], values: list[ast.expr], targets: list[ast.expr], place: Place, scope: Scope
) -> list[ast.stmt] | None:
    if any(isinstance(t, ast.Tuple | ast.List) for t in targets):
        return None
    names = [t.id if isinstance(t, ast.Name) else None for t in targets]
    if any(n is not None and not private(n, place) for n in names):
        return None
    seen = [scope.effects(v) for v in values]
    if None in names or not all(e.pure for e in seen):
        # Stores into objects, or values with effects: only the written order will do.
        for k, target in enumerate(targets):
            stored = scope.effects(target)
            if stored.raises and k < len(targets) - 1:
                return None
            if any(conflict(stored, e, scope) for e in seen[k + 1 :]):
                return None
        return parts
    if len(set(names)) != len(names):
        return None
    pending = list(range(len(parts)))
    result: list[ast.stmt] = []
    while pending:
        for k in pending:
            if not any(names[k] in seen[j].reads for j in pending if j != k):
                break
        else:
            return None
        pending.remove(k)
        result.append(parts[k])
    alone = sum(e.raises for e in seen) <= 1
    return result if alone or all(a is b for a, b in zip(result, parts, strict=True)) else None


@statement(
    ast.AugAssign,
    needs="the variable's type: int, str, float, bool (immutable), or list",
    sound="on immutable values `x += e` is `x = x + e`; on a list it is `x.extend(e)`",
    fires=("n: int", "n += 1\nreturn n"),
    keeps=("n: any", "n += 1\nreturn n"),
)
def expand_augmented(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    if not isinstance(s, ast.AugAssign):
        return None
    target = s.target
    if isinstance(target, ast.Attribute) and not isinstance(target.value, ast.Name):
        return None
    if isinstance(target, ast.Subscript) and not _plain_element(target, s.value, place.before(i)):
        return None
    loaded = clone(target)
    loaded.ctx = ast.Load()
    t = place.scope.type_of(loaded)
    if t in IMMUTABLE:
        value = ast.BinOp(left=loaded, op=s.op, right=s.value)
        return [ast.Assign(targets=[target], value=value, lineno=0)]
    if kind(t) == "list" and isinstance(s.op, ast.Add) and isinstance(target, ast.Name):
        method = "append" if isinstance(s.value, ast.List) and len(s.value.elts) == 1 else "extend"
        argument = s.value.elts[0] if method == "append" and isinstance(s.value, ast.List) else s.value
        call = ast.Call(
            func=ast.Attribute(value=loaded, attr=method, ctx=ast.Load()), args=[argument], keywords=[]
        )
        return [ast.Expr(value=call)]
    return None


def _plain_element(target: ast.Subscript, value: ast.expr, scope: Scope) -> bool:
    """Whether container and key are plain names (the key also a constant, or pure and of a type whose equal
    values are one key) that evaluating the value cannot change."""
    owner, key = target.value, target.slice
    if isinstance(owner, ast.Attribute):
        owner = owner.value
    if not isinstance(owner, ast.Name) or not scope.effects(value).pure:
        return False
    if isinstance(key, ast.Name | ast.Constant):
        return True
    return scope.type_of(key) in {"int", "bool", "str", "char"} and scope.effects(key).pure
