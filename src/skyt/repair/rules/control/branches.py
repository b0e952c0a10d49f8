"""Branches: one shape for guards, `else` after return, nested conditions, and branches that share code."""

from __future__ import annotations

import ast
from itertools import pairwise

from skyt.repair.rules.analysis.trees.syntax import is_false, is_none, is_true, leaves, negate, returns
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.registry import Place, block

ALWAYS = "nothing"


def branch(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.If:
    return ast.If(test=test, body=body, orelse=orelse or [])


def replaced(body: list[ast.stmt], index: int, *new: ast.stmt) -> list[ast.stmt]:
    return [*body[:index], *new, *body[index + 1 :]]


@block(needs=ALWAYS, sound="control never reaches a statement behind one that always leaves")
def drop_unreachable(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body[:-1]):
        if leaves([s]):
            return body[: i + 1]
    return None


@block(ast.If, ast.While, needs=ALWAYS, sound="a condition that is a constant chooses its branch for good")
def decide_constant(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if isinstance(s, ast.If) and is_true(s.test):
            return replaced(body, i, *s.body)
        if isinstance(s, ast.If) and is_false(s.test):
            return replaced(body, i, *s.orelse)
        if isinstance(s, ast.While) and is_false(s.test):
            return replaced(body, i, *s.orelse)
    return None


@block(
    needs="a condition without effects that cannot raise",
    sound="a branch without statements only evaluates its test",
)
def drop_empty_branch(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not isinstance(s, ast.If):
            continue
        empty = all(isinstance(x, ast.Pass) for x in s.body)
        if empty and s.orelse:
            return replaced(body, i, branch(negate(s.test), s.orelse))
        if s.orelse and all(isinstance(x, ast.Pass) for x in s.orelse):
            return replaced(body, i, branch(s.test, s.body))
        if empty or (s.orelse and same(s.body, s.orelse)):
            rest = [] if empty else s.body
            if place.before(i).effects(s.test).total:
                return replaced(body, i, *rest)
            return replaced(body, i, ast.Expr(value=s.test), *rest)
    return None


@block(
    ast.If,
    needs=ALWAYS,
    sound="behind a branch that always leaves, `else` and the code after it are the same place",
)
def flatten_else(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not (isinstance(s, ast.If) and s.orelse):
            continue
        if leaves(s.body):
            return replaced(body, i, branch(s.test, s.body), *s.orelse)
        if leaves(s.orelse):
            return replaced(body, i, branch(negate(s.test), s.orelse), *s.body)
    return None


@block(
    needs=ALWAYS,
    sound="at the end of a loop body `continue`, and at the end of a function `return None`, are what "
    "happens anyway",
)
def drop_final_jump(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    last = body[-1]
    idle = (place.loop_tail and isinstance(last, ast.Continue)) or (
        place.tail and isinstance(last, ast.Return) and is_none(last.value)
    )
    return (body[:-1] or [ast.Pass()]) if idle else None


@block(
    ast.If,
    needs=ALWAYS,
    sound="skipping the rest of a loop body (or of a function that returns None) is having the rest in "
    "the other branch",
)
def jump_to_else(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body[:-1]):
        if not isinstance(s, ast.If) or s.orelse:
            continue
        last = s.body[-1]
        skips = (place.loop_tail and isinstance(last, ast.Continue)) or (
            place.tail and isinstance(last, ast.Return) and is_none(last.value) and not returns(body)
        )
        if skips:
            rest = body[i + 1 :]
            if len(s.body) == 1:
                return [*body[:i], branch(negate(s.test), rest)]
            return [*body[:i], branch(s.test, s.body[:-1], rest)]
    return None


@block(
    ast.If,
    needs=ALWAYS,
    sound="two nested conditions without `else` hold together exactly when their conjunction does",
)
def merge_nested(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if (
            isinstance(s, ast.If)
            and not s.orelse
            and len(s.body) == 1
            and isinstance(s.body[0], ast.If)
            and not s.body[0].orelse
        ):
            inner = s.body[0]
            test = ast.BoolOp(
                op=ast.And(), values=[*operands(s.test, ast.And), *operands(inner.test, ast.And)]
            )
            return replaced(body, i, branch(test, inner.body))
    return None


def operands(node: ast.expr, op: type[ast.boolop]) -> list[ast.expr]:
    return node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, op) else [node]


@block(ast.If, needs=ALWAYS, sound="two guards in a row that leave in the same way are one guard with `or`")
def merge_guards(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, (s, t) in enumerate(pairwise(body)):
        if (
            isinstance(s, ast.If)
            and isinstance(t, ast.If)
            and not s.orelse
            and not t.orelse
            and leaves(s.body)
            and same(s.body, t.body)
        ):
            test = ast.BoolOp(op=ast.Or(), values=[*operands(s.test, ast.Or), *operands(t.test, ast.Or)])
            return [*body[:i], branch(test, s.body), *body[i + 2 :]]
    return None


def _strip_exit(s: ast.If, follower: ast.stmt) -> bool:
    changed = False
    for name in ("body", "orelse"):
        inner: list[ast.stmt] = getattr(s, name)
        if not inner:
            continue
        if same(inner[-1], follower):
            setattr(s, name, inner[:-1] or ([ast.Pass()] if name == "body" else []))
            changed = True
        elif isinstance(inner[-1], ast.If):
            changed = _strip_exit(inner[-1], follower) or changed
    return changed


@block(
    ast.If,
    needs=ALWAYS,
    sound="code at the end of both branches runs after either, so it can stand behind them",
)
def share_suffix(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if isinstance(s, ast.If) and s.orelse and same(s.body[-1], s.orelse[-1]) and not leaves(s.body):
            then, other = s.body[:-1] or [ast.Pass()], s.orelse[:-1]
            return replaced(body, i, branch(s.test, then, other), s.body[-1])
    return None


@block(
    ast.If,
    needs=ALWAYS,
    sound="a branch that is taken under either of two conditions is taken under their `or`",
)
def merge_alternatives(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if a: (if b: s)` `else: s` is `if not a or b: s`; `if a: s` `elif b: s` is `if a or b: s`."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.If) and s.orelse):
            continue
        for inner, other, test in ((s.body, s.orelse, negate(s.test)), (s.orelse, s.body, s.test)):
            only = inner[0]
            if len(inner) == 1 and isinstance(only, ast.If) and not only.orelse and same(only.body, other):
                either = [*operands(test, ast.Or), *operands(only.test, ast.Or)]
                return replaced(body, i, branch(ast.BoolOp(op=ast.Or(), values=either), other))
    return None
