"""Counting loops: one form for loops over numbers."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    call,
    count_reads,
    int_value,
    load,
    mentions,
    number,
    own_breaks,
    read_names,
    stored_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, block


@block(
    ast.While,
    needs="an int counter, changed only by the step at the end, dead after the loop; a limit the body "
    "does not change; "
    "no `continue`",
    sound="the counter then takes exactly the values of a range, one a round",
    fires=(
        "n: int >= 0 <= 50",
        "def f(n):\n t = 0\n i = 1\n while i < n:\n  t = t + i\n  i = i + 1\n return t",
    ),
    keeps=(
        "n: int >= 0 <= 50",
        "def f(n):\n t = 0\n i = 1\n while i < n:\n  t = t + i\n  i = i + 1\n return t + i",
    ),
)
def counting_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`i = a; while i < n: …; i += 1` becomes `for i in range(a, n): …`."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.While) and not s.orelse and len(s.body) > 1):
            continue
        scope = place.before(i)
        found = _counter(s, scope)
        if found is None:
            continue
        name, limit, step, at = found
        if name in place.live_at(s) or own_breaks(s.body, (ast.Continue,)):
            continue
        inner = [*s.body[:at], *s.body[at + 1 :]]
        written = {n for x in inner for n in stored_names(x)} | {name}
        if name in {n for x in inner for n in stored_names(x)} or read_names(limit) & written:
            continue
        seen, changed = scope.effects(limit), scope.effects(inner)
        if not seen.total or disturbs(changed, seen, scope):
            continue
        start: ast.expr = load(name)
        before = body[:i]
        if i and _assigns(body[i - 1], name):
            start = body[i - 1].value  # type: ignore[attr-defined]
            before = body[: i - 1]
        args = [start, limit] if step == 1 else [start, limit, ast.Constant(value=step)]
        loop = ast.For(
            target=ast.Name(id=name, ctx=ast.Store()),
            iter=call("range", *args),
            body=inner,
            orelse=[],
            lineno=0,
        )
        return [*before, loop, *body[i + 1 :]]
    return None


def _assigns(s: ast.stmt, name: str) -> bool:
    return (
        isinstance(s, ast.Assign)
        and len(s.targets) == 1
        and isinstance(s.targets[0], ast.Name)
        and s.targets[0].id == name
    )


def _counter(s: ast.While, scope: Scope) -> tuple[str, ast.expr, int, int] | None:
    """(counter, exclusive limit, step, index of the stepping statement) of a counting loop."""
    for at in range(len(s.body) - 1, -1, -1):
        stepped = step_of(s.body[at], scope)
        if stepped is not None and not mentions(s.body[at + 1 :], {stepped[0]}):
            limit = _limit(s.test, stepped[0], scope)
            if limit is not None:
                return stepped[0], limit, stepped[1], at
    return None


def step_of(last: ast.stmt, scope: Scope) -> tuple[str, int] | None:
    """(counter, step) of `i = i + step`."""
    if not (
        isinstance(last, ast.Assign) and len(last.targets) == 1 and isinstance(last.targets[0], ast.Name)
    ):
        return None
    name, value = last.targets[0].id, last.value
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and same(value.left, load(name))):
        return None
    step = int_value(value.right)
    return None if step is None or step < 1 or not is_int(scope.type_of(load(name))) else (name, step)


def _limit(test: ast.expr, name: str, scope: Scope) -> ast.expr | None:
    """The exclusive limit of `while i < n`, `while i <= n`, `while i * i <= n`."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    left, op, right = test.left, test.ops[0], test.comparators[0]
    if (offset := _offset(left, name)) and is_int(scope.type_of(right)):  # i + 1 < n
        left, right = load(name), ast.BinOp(left=right, op=ast.Sub(), right=number(offset))
    if not same(left, load(name)) or not is_int(scope.type_of(right)):
        return _square_limit(test, name, scope)
    if isinstance(op, ast.Lt):
        return right
    if isinstance(op, ast.LtE):
        return ast.BinOp(left=right, op=ast.Add(), right=ast.Constant(value=1))
    return None


def _square_limit(test: ast.Compare, name: str, scope: Scope) -> ast.expr | None:
    """`i * i <= n` with i and n never negative is `i <= isqrt(n)`."""
    square = ast.BinOp(left=load(name), op=ast.Mult(), right=load(name))
    if not (same(test.left, square) and isinstance(test.ops[0], ast.LtE)):
        return None
    n = test.comparators[0]
    low = scope.interval(n)[0]
    start = scope.info.nonnegative if scope.info else frozenset()
    if low is None or low < 0 or name not in start or not is_int(scope.type_of(n)):
        return None
    root = call(ast.Attribute(value=load("math"), attr="isqrt", ctx=ast.Load()), n)
    return ast.BinOp(left=root, op=ast.Add(), right=ast.Constant(value=1))


@block(
    ast.For,
    needs="a loop variable that is never read",
    sound="only the number of rounds of such a loop matters",
    fires=("n: int >= 0 <= 50", "def f(n):\n t = 1\n for i in range(2, n + 1):\n  t = t * 2\n return t"),
    keeps=("n: int >= 0 <= 50", "def f(n):\n t = 1\n for i in range(2, n + 1):\n  t = t * i\n return t"),
)
def anonymous_rounds(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for i in range(2, n + 1)` with i unused becomes `for i in range(n - 1)`."""
    from skyt.repair.rules.expressions.arithmetic import difference

    for i, s in enumerate(body):
        if not (isinstance(s, ast.For) and isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)):
            continue
        made = s.iter
        if not (isinstance(made.func, ast.Name) and made.func.id == "range" and len(made.args) == 2):
            continue
        if count_reads(s.body, s.target.id) or s.target.id in place.live_at(s):
            continue
        if not all(is_int(place.scope.type_of(a)) and place.scope.effects(a).total for a in made.args):
            continue
        rounds = difference(made.args[1], made.args[0], place.scope)
        if rounds is None:
            continue
        new = clone(s)
        new.iter = call("range", rounds)
        return replaced(body, i, new)
    return None


@block(
    ast.For,
    needs="an int loop variable that is only used in indices, not assigned, dead after the loop; constants "
    "for the start and for the offsets",
    sound="counting from 1 and looking at i - 1 is counting from 0 and looking at i",
    fires=(
        "xs: list[int]",
        "def f(xs):\n t = 1\n for i in range(1, len(xs)):\n  t = 2 * t + xs[i] - xs[i - 1]\n return t",
    ),
    keeps=(
        "xs: list[int]",
        "def f(xs):\n t = 1\n for i in range(1, len(xs)):\n  t = i * t + xs[i] - xs[i - 1]\n return t",
    ),
)
def shift_index(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for i in range(1, n): … x[i - 1] … x[i]` is `for i in range(n - 1): … x[i] … x[i + 1]`."""
    for k, s in enumerate(body):
        if not (isinstance(s, ast.For) and isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)):
            continue
        name, args = s.target.id, s.iter.args
        if place.scope.builtin(s.iter.func) != "range" or len(args) != 2 or s.iter.keywords:
            continue
        start = int_value(args[0])
        if start is None or start <= 0 or name in place.live_at(s) or not private(name, place):
            continue
        if any(name in stored_names(x) for x in s.body) or not is_int(place.scope.type_of(args[1])):
            continue
        indices = [n.slice for n in walk(s.body) if isinstance(n, ast.Subscript)]
        offsets = [o for o in (_offset(n, name) for n in indices) if o is not None]
        if not offsets or len(offsets) != count_reads(s.body, name):
            continue
        by = min(start, -min(offsets))
        if by <= 0:
            continue
        new, fresh = clone(s), place.context.name(name.rstrip("0123456789_") or "i")
        stop = ast.BinOp(left=args[1], op=ast.Sub(), right=number(by))
        new.target = ast.Name(id=fresh, ctx=ast.Store())
        new.iter = call("range", *([number(start - by)] if start > by else []), stop)
        moved = ast.BinOp(left=load(fresh), op=ast.Add(), right=number(by))
        new.body = [substitute(x, {name: moved}) for x in new.body]
        return replaced(body, k, new)
    return None


def _offset(node: ast.expr, name: str) -> int | None:
    """k of `name + k`."""
    if isinstance(node, ast.Name) and node.id == name:
        return 0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and same(node.left, load(name)):
        value = int_value(node.right)
        return None if value is None else value if isinstance(node.op, ast.Add) else -value
    return None
