"""Temporaries: a value that is named only to be used is put where it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, count_reads, stored_names, substitute
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, clone, size, walk
from skyt.repair.rules.analysis.types import IMMUTABLE
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.registry import Place, block

SMALL = 12
CHEAP = frozenset({"len", "str", "abs", "int"})


@block(
    ast.Assign,
    ast.If,
    needs="one use, in the next statement, before which nothing is evaluated there that does not commute "
    "with the value (a local that every branch assigns last is used for each); or one assignment of a pure "
    "value that cannot raise (or whose first use comes next) of which nothing that it reads changes before "
    "the last use; for several uses: a small value of immutable type without calls other than `len`, `str`, "
    "`abs`, `int` that cannot raise, or a plain name",
    sound="the value is computed at the same point of the computation as before, or evaluating it again "
    "gives the same value, and nothing else",
    fires=(
        "xs: list[int]; n: int",
        "if n > 1:\n t = n\nelse:\n t = 3\nk = len(xs)\nm = 7 // n\nreturn k * k + m + t",
    ),
    keeps=(
        "xs: list[int]; n: int",
        "t = 7 // n\nk = len(xs)\nxs.append(1)\nif n > 1:\n m = n\nelse:\n m = 7 // n\n"
        "return [[8][n], m, k * k, n < 3 or t < 2]",
    ),
)
def inline_temporary(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`k = len(xs)` `return k * k` is `return len(xs) * len(xs)`; `if c: t = a` `else: t = b` `f(t)` is
    `if c: f(a)` `else: f(b)`."""
    for way in (_into_next, _into_branches, _everywhere):
        new = way(body, place)
        if new is not None:
            return new
    return None


def _into_next(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """The value of an assignment put into the statement behind it."""
    for i, (s, t) in enumerate(pairwise(body)):
        name = simple_target(s)
        if name is not None and _used_once(name, t, place) and fits(t, name, s.value, place.before(i)):  # type: ignore[attr-defined]
            return [*body[:i], substitute(clone(t), {name: s.value}), *body[i + 2 :]]  # type: ignore[attr-defined]
    return None


def _used_once(name: str, t: ast.stmt, place: Place) -> bool:
    """Whether a local is read once in a statement and not after it."""
    if not place.private(name) or count_reads(t, name) != 1:
        return False
    return name not in place.live_at(t) or (isinstance(t, ast.Assign) and name in stored_names(t))


def fits(t: ast.stmt, name: str, value: ast.expr, scope: Scope) -> bool:
    head = head_of(t)
    if head is None or sum(count_reads(h, name) for h in head) != 1:
        return False
    if any(isinstance(n, ast.AugAssign) and name in stored_names(n) for n in walk(t)):
        return False  # which reads its target
    before: list[ast.expr] = []
    if find_use(head, name, before) != "once":
        return False
    earlier = Effects()
    for node in before:
        earlier.include(scope.effects(node))
    return not conflict(scope.effects(value), earlier, scope)


def head_of(t: ast.stmt) -> list[ast.expr] | None:
    """The expressions a statement evaluates first, once, in order."""
    if isinstance(t, ast.Return | ast.Expr):
        return [t.value] if t.value is not None else []
    if isinstance(t, ast.Assign):
        return [t.value, *t.targets]
    if isinstance(t, ast.If):
        return [t.test]
    if isinstance(t, ast.For):
        return [t.iter]
    if isinstance(t, ast.AugAssign):
        return [t.value] if isinstance(t.target, ast.Name) else None
    if isinstance(t, ast.Raise):
        return [t.exc] if t.exc is not None and t.cause is None else None
    if isinstance(t, ast.Delete):
        return list(t.targets)
    return None


def find_use(nodes: Sequence[ast.expr], name: str, before: list[ast.expr]) -> str:
    """How often a name is read: `once`, or `maybe` not or more. Collects what is evaluated before it."""
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == name:
            return "once"
        if not count_reads(node, name):
            before.append(node)
            continue
        if isinstance(node, ast.Lambda | ast.IfExp) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
            return "maybe"
        if isinstance(node, COMPREHENSIONS):
            first = node.generators[0].iter
            return find_use([first], name, before) if count_reads(first, name) else "maybe"
        if isinstance(node, ast.BoolOp):
            return find_use(node.values[:1], name, before) or "maybe"
        return find_use(list(_operands(node)), name, before)
    return ""


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    inside = ast.iter_child_nodes(node)
    if isinstance(node, ast.Dict):  # a key, its value, the next key
        inside = iter([x for pair in zip(node.keys, node.values, strict=True) for x in pair if x])
    for child in inside:
        if isinstance(child, ast.expr):
            yield child
        elif not isinstance(child, ast.expr_context):
            yield from _operands(child)


def _into_branches(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """The statement behind branches that all assign one variable last, put into each of them."""
    anywhere = Scope(place.scope.program, place.scope.info)
    for i, (s, t) in enumerate(pairwise(body)):
        if not (isinstance(s, ast.If) and s.orelse) or isinstance(t, (*LOOPS, *NESTED, ast.If)):
            continue
        leaves = _last_assignments(s)
        if leaves is None or len(leaves) > 4 or size(t) * len(leaves) > 120:
            continue
        name = simple_target(leaves[0])
        if name is None or any(simple_target(x) != name for x in leaves) or not _used_once(name, t, place):
            continue
        if all(fits(t, name, x.value, anywhere) for x in leaves):  # type: ignore[attr-defined]
            new = clone(s)
            _append_to_branches(new, t, name)
            return [*body[:i], new, *body[i + 2 :]]
    return None


def _last_assignments(s: ast.If) -> list[ast.stmt] | None:
    """The statements that end the branches, if there is always one."""
    found: list[ast.stmt] = []
    for inner in (s.body, s.orelse):
        if not inner:
            return None
        last = inner[-1]
        if isinstance(last, ast.If):
            below = _last_assignments(last)
            if below is None:
                return None
            found += below
        else:
            found.append(last)
    return found


def _append_to_branches(s: ast.If, t: ast.stmt, name: str) -> None:
    for inner in (s.body, s.orelse):
        last = inner[-1]
        if isinstance(last, ast.If):
            _append_to_branches(last, t, name)
        else:
            inner[-1] = substitute(clone(t), {name: last.value})  # type: ignore[attr-defined]


def _everywhere(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """The value of the only assignment of a variable put wherever that is read."""
    census = place.context.census(place.info.node)
    for i, s in enumerate(body):
        name, rest = simple_target(s), body[i + 1 :]
        if name is None or not place.private(name) or name in place.info.arguments:
            continue
        value, uses = s.value, census.reads[name]  # type: ignore[attr-defined]
        if census.stores[name] != 1 or not uses or uses != count_reads(rest, name):
            continue
        scope = place.before(i)
        seen = scope.effects(value)
        if not repeatable(value, uses, rest, name, scope) or not seen.pure:
            continue
        if seen.raises and not (rest and _uses_first(rest[0], name, scope)):
            continue
        if undisturbed(rest, name, seen, scope):
            return [*body[:i], *(substitute(clone(t), {name: value}) for t in rest)]
    return None


def _uses_first(t: ast.stmt, name: str, scope: Scope) -> bool:
    head = head_of(t)
    if head is None:
        return False
    before: list[ast.expr] = []
    found = find_use(head, name, before)
    return found == "once" and all(scope.effects(b).total for b in before)


def undisturbed(rest: Sequence[ast.stmt], name: str, seen: Effects, scope: Scope) -> bool:
    return _scan(rest, name, seen, scope, False) is not None


def _scan(rest: Sequence[ast.stmt], name: str, seen: Effects, scope: Scope, dirty: bool) -> bool | None:
    """Whether what the value reads may have changed after these statements; None if a use comes after a
    change."""
    for t in rest:
        if isinstance(t, ast.If):
            result = _simple(t.test, name, seen, scope, dirty)
            if result is None:
                return None
            then = _scan(t.body, name, seen, scope, result)
            other = _scan(t.orelse, name, seen, scope, result)
            if then is None or other is None:
                return None
            dirty = then or other
        elif isinstance(t, LOOPS):
            changed = disturbs(scope.effects(t), seen, scope)
            inside = count_reads(t, name) - (count_reads(t.iter, name) if isinstance(t, ast.For) else 0)
            if isinstance(t, ast.For) and count_reads(t.iter, name) and dirty:
                return None
            if inside and (changed or dirty):
                return None
            dirty = dirty or changed
        elif isinstance(t, ast.Assign):
            result = _simple(t.value, name, seen, scope, dirty)
            if result is None or (result and any(count_reads(x, name) for x in t.targets)):
                return None
            dirty = result or disturbs(scope.effects(list(t.targets)), seen, scope)
        else:
            result = _simple(t, name, seen, scope, dirty)
            if result is None:
                return None
            dirty = result
    return dirty


def _simple(t: ast.AST, name: str, seen: Effects, scope: Scope, dirty: bool) -> bool | None:
    changed = disturbs(scope.effects(t), seen, scope)
    if count_reads(t, name) and (dirty or (changed and not _last_moment(t, name, seen, scope))):
        return None
    return dirty or changed


def _last_moment(t: ast.AST, name: str, seen: Effects, scope: Scope) -> bool:
    """`stack.append(value)`: the arguments are evaluated before the call changes anything."""
    node = t.value if isinstance(t, ast.Expr) else t
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    parts = [node.func.value, *node.args, *(k.value for k in node.keywords)]
    return not any(disturbs(scope.effects(p), seen, scope) for p in parts)


def repeatable(value: ast.expr, uses: int, rest: list[ast.stmt], name: str, scope: Scope) -> bool:
    """Whether a value is so small, or used so rarely, that its name can go."""
    if isinstance(value, ast.Name | ast.Constant):
        return True
    if scope.type_of(value) in IMMUTABLE - {"float"}:  # of one NaN there may be two
        nodes = walk(value)
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        if len(nodes) <= SMALL and not any(isinstance(n, COMPREHENSIONS) for n in nodes):
            called = {scope.builtin(n.func) for n in calls}
            if called <= {"len"}:
                return True
            cheap = called <= CHEAP and scope.effects(value).total
            if cheap and not any(_indexed_in_loop(t, name) for t in rest):
                return True
    return uses == 1 and not any(_inside_loop(t, name) for t in rest)


def _indexed_in_loop(t: ast.stmt, name: str) -> bool:
    """Whether a loop looks up parts of a value: there it keeps its name."""
    loops = [n for n in walk(t) if isinstance(n, LOOPS)]
    return any(isinstance(n, ast.Subscript) and count_reads(n.value, name) for n in walk(loops))


def _inside_loop(t: ast.stmt, name: str) -> bool:
    for n in walk(t):
        again = n.body if isinstance(n, ast.For) else n  # what runs more than once, or later
        if isinstance(n, (*LOOPS, *COMPREHENSIONS, ast.Lambda)) and count_reads(again, name):
            return True
    return False
