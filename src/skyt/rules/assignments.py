"""Assignments: split, expanded and dropped, so that only what carries information is left."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyt.rules.branches import replaced
from skyt.rules.conditions import binding_order
from skyt.rules.effects import conflict, test_effects
from skyt.rules.engine import scope_before
from skyt.rules.registry import Place, block
from skyt.rules.syntax import (
    LOOPS,
    NESTED,
    assign,
    blocks,
    clone,
    count_reads,
    load,
    read_names,
    rename,
    stored_names,
    substitute,
    walk,
    walk_shallow,
)
from skyt.rules.types import IMMUTABLE, is_int, is_str, kind


def simple_target(s: ast.stmt) -> str | None:
    """The name that `name = value` assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


def private(name: str, place: Place) -> bool:
    """Whether a name is a local that no nested function sees and no handler can find."""
    info = place.scope.info
    return info is not None and name not in place.context.liveness(info.node).always


@block(needs="an immutable constant or a plain name", sound="every target gets the same value, left to right")
def split_chained(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`i = j = 0` is `i = 0; j = 0`."""
    for i, s in enumerate(body):
        if isinstance(s, ast.Assign) and len(s.targets) > 1 and isinstance(s.value, ast.Constant):
            return replaced(
                body, i, *(ast.Assign(targets=[t], value=clone(s.value), lineno=0) for t in s.targets)
            )
    return None


@block(
    needs="an order of the parts in which no part reads what an earlier one stored",
    sound="all values are then the same as before any store; a local that is stored earlier cannot be seen",
)
def split_tuple(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple)):
            continue
        targets, value = s.targets[0].elts, s.value
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
            continue
        parts: list[ast.stmt] = [
            ast.Assign(targets=[t], value=v, lineno=0) for t, v in zip(targets, value.elts, strict=True)
        ]
        ordered = _sequence(parts, value.elts, targets, place)
        if ordered is not None:
            return replaced(body, i, *ordered)
    return None


def _sequence(
    parts: list[ast.stmt], values: list[ast.expr], targets: list[ast.expr], place: Place
) -> list[ast.stmt] | None:
    scope = place.scope
    if any(isinstance(t, ast.Starred | ast.Tuple | ast.List) for t in targets):
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
    return result


@block(
    needs="the variable's type: int, str, float, bool (immutable), or list",
    sound="on immutable values `x += e` is `x = x + e`; on a list it is `x.extend(e)`",
)
def expand_augmented(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not isinstance(s, ast.AugAssign):
            continue
        target = s.target
        if not isinstance(target, ast.Name | ast.Attribute):
            continue
        if isinstance(target, ast.Attribute) and not isinstance(target.value, ast.Name):
            continue
        loaded = clone(target)
        loaded.ctx = ast.Load()
        t = place.scope.type_of(loaded)
        if t in IMMUTABLE:
            value = ast.BinOp(left=loaded, op=s.op, right=s.value)
            return replaced(body, i, ast.Assign(targets=[target], value=value, lineno=0))
        if kind(t) == "list" and isinstance(s.op, ast.Add) and isinstance(target, ast.Name):
            method = "append" if isinstance(s.value, ast.List) and len(s.value.elts) == 1 else "extend"
            argument = s.value.elts[0] if method == "append" and isinstance(s.value, ast.List) else s.value
            if isinstance(argument, ast.Starred):
                continue
            call = ast.Call(
                func=ast.Attribute(value=loaded, attr=method, ctx=ast.Load()), args=[argument], keywords=[]
            )
            return replaced(body, i, ast.Expr(value=call))
    return None


@block(needs="nothing", sound="assigning a variable to itself does nothing")
def drop_self_assignment(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        name = simple_target(s)
        if (
            name is not None
            and isinstance(s, ast.Assign)
            and isinstance(s.value, ast.Name)
            and s.value.id == name
        ):
            return replaced(body, i) or [ast.Pass()]
    return None


@block(
    needs="a local that is not live afterwards; a value without effects that cannot raise, or else its evaluation stays",
    sound="a value nobody can read need not be stored",
)
def drop_dead_store(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not private(name, place) or name in place.live_at(s):
            continue
        assert isinstance(s, ast.Assign)
        scope = scope_before(body, i, place.scope)
        if scope.effects(s.value).total:
            return replaced(body, i) or [ast.Pass()]
        return replaced(body, i, ast.Expr(value=s.value))
    return None


@block(
    needs="a local that is read only to compute its own next value, by operations that cannot raise",
    sound="such a value never reaches anything that can be observed",
)
def drop_faint_variable(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    info = place.scope.info
    if info is None:
        return None
    for s in body:
        name = simple_target(s)
        if name is None or not private(name, place) or name in info.arguments:
            continue
        own = [x for x in _statements(info.node.body) if simple_target(x) == name]
        inside = sum(count_reads(x, name) for x in own)
        if not inside or inside != count_reads(info.node, name):
            continue
        if len(own) != len(info.assigned.get(name, ())):
            continue
        if not all(place.scope.effects(x.value).total for x in own if isinstance(x, ast.Assign)):
            continue
        kept = [x for x in body if simple_target(x) != name]
        return kept or [ast.Pass()]
    return None


def _statements(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        found.append(s)
        if not isinstance(s, NESTED):
            for inner in blocks(s):
                found += _statements(inner)
    return found


@block(
    needs="an assignment to a name, and a later one in the same block that replaces it on every path",
    sound="two values that never meet can live under two names",
)
def split_webs(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`text = f(text); text = g(text)` gives each value a name of its own, so that it can be inlined."""
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not private(name, place):
            continue
        for j in range(i + 1, len(body)):
            t = body[j]
            if simple_target(t) == name:
                between = body[i + 1 : j]
                jumps = any(isinstance(n, ast.Break | ast.Continue) for n in walk(between))
                if jumps or name in {n for x in between for n in stored_names(x)}:
                    break
                fresh = place.context.name(name.rstrip("0123456789_") or "t")
                first = clone(s)
                first.targets = [ast.Name(id=fresh, ctx=ast.Store())]  # type: ignore[attr-defined]
                middle = [rename(clone(x), {name: fresh}) for x in between]
                last = clone(t)
                assert isinstance(last, ast.Assign)
                last.value = substitute(last.value, {name: load(fresh)})
                return [*body[:i], first, *middle, last, *body[j + 1 :]]
            if name in stored_names(t):
                break
    return None


@block(
    needs="a parameter that is assigned once more, at the top of the function",
    sound="the new value can live under a name of its own",
)
def split_parameter(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`text = text.lower(); … text …` keeps the parameter and gives the new value its own name."""
    info = place.scope.info
    if info is None or body is not info.node.body:
        return None
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or name not in info.arguments or not private(name, place):
            continue
        stores = sum(
            isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
            for n in walk_shallow(body)
        )
        if stores != 1 or any(isinstance(n, NESTED) for n in walk(body)):
            continue
        fresh = place.context.name(name.rstrip("0123456789_") or "t")
        first = clone(s)
        first.targets = [ast.Name(id=fresh, ctx=ast.Store())]  # type: ignore[attr-defined]
        rest = [rename(clone(x), {name: fresh}) for x in body[i + 1 :]]
        return [*body[:i], first, *rest]
    return None


@block(
    needs="a run of assignments of pure values to locals, one of which is only a way to remember an old value",
    sound="the run is executed symbolically; one simultaneous assignment gives every variable the same value",
)
def simultaneous(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`t = a % b; a = b; b = t` is `a, b = b, a % b`."""
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not private(name, place):
            continue
        for j in range(i + 1, min(len(body), i + 6)):
            if simple_target(body[j]) is None:
                break
            assert isinstance(body[j], ast.Assign)
            if not count_reads(body[j].value, name):
                continue
            run = body[i : j + 1]
            if name in place.live_at(body[j]) and simple_target(body[j]) != name:
                break
            new = _together(run, name, place)
            if new is not None:
                return [*body[:i], new, *body[j + 1 :]]
            break
    return None


def _together(run: list[ast.stmt], temporary: str, place: Place) -> ast.stmt | None:
    """One tuple assignment for the run, without the temporary; None where values would be repeated or misplaced."""
    if len(run) < 3:
        return None
    values: dict[str, ast.expr] = {}
    for s in run:
        name = simple_target(s)
        assert name is not None and isinstance(s, ast.Assign)
        if not private(name, place) or not place.scope.effects(s.value).pure:
            return None
        for used in read_names(s.value) & set(values):
            if count_reads(s.value, used) > 1 and not isinstance(values[used], ast.Name | ast.Constant):
                return None
        if name in values and name != temporary:
            return None
        values[name] = substitute(clone(s.value), values)
    if simple_target(run[-1]) != temporary:
        del values[temporary]
    names = sorted(values, key=lambda n: binding_order(place.scope).get(n, 999))
    if len(names) < 2 or sum(place.scope.effects(values[n]).raises for n in names) > 1:
        return None
    if not any(set(names) & read_names(values[n]) - {n} for n in names):
        return None
    target = ast.Tuple(elts=[ast.Name(id=n, ctx=ast.Store()) for n in names], ctx=ast.Store())
    value = ast.Tuple(elts=[values[n] for n in names], ctx=ast.Load())
    return ast.Assign(targets=[target], value=value, lineno=0)


@block(
    needs="a simultaneous assignment of pure values, of which at most one may raise",
    sound="the order of the parts of a simultaneous assignment to different locals does not matter",
)
def order_simultaneous(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple)):
            continue
        targets = s.targets[0].elts
        if not isinstance(s.value, ast.Tuple) or not all(isinstance(t, ast.Name) for t in targets):
            continue
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        order = binding_order(place.scope)
        wanted = sorted(range(len(names)), key=lambda k: order.get(names[k], 999))
        if wanted == list(range(len(names))) or len(set(names)) != len(names) != len(s.value.elts):
            continue
        seen = [place.scope.effects(v) for v in s.value.elts]
        if not all(e.pure for e in seen) or sum(e.raises for e in seen) > 1:
            continue
        target = ast.Tuple(elts=[targets[k] for k in wanted], ctx=ast.Store())
        value = ast.Tuple(elts=[s.value.elts[k] for k in wanted], ctx=ast.Load())
        return replaced(body, i, ast.Assign(targets=[target], value=value, lineno=0))
    return None


@block(
    needs="a default value that cannot raise and that the condition and the other value do not read",
    sound="the default is seen exactly when the condition fails",
)
def default_to_else(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`x = a; if c: x = b` is `if c: x = b else: x = a`."""
    for i, (s, t) in enumerate(zip(body, body[1:], strict=False)):
        name = simple_target(s)
        if name is None or not isinstance(t, ast.If) or t.orelse or len(t.body) != 1:
            continue
        if simple_target(t.body[0]) != name or count_reads(t, name) or not private(name, place):
            continue
        assert isinstance(s, ast.Assign)
        value, test = place.scope.effects(s.value), test_effects(t.test, place.scope)
        if value.total and not conflict(test, value, place.scope):
            return [*body[:i], ast.If(test=t.test, body=t.body, orelse=[s]), *body[i + 2 :]]
    return None


__all__ = ["LOOPS", "assign", "is_int", "is_str", "private", "simple_target"]
