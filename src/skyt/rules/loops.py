"""Loops: one shape for exits, for counting loops, and for iteration by index."""

from __future__ import annotations

import ast

from skyt.rules.branches import replaced
from skyt.rules.effects import Effects, disturbs
from skyt.rules.registry import Place, block
from skyt.rules.syntax import LOOPS, blocks, count_reads, int_value, is_true, load, own_breaks, stored_names
from skyt.rules.trees import NESTED, clone, same, walk
from skyt.rules.types import is_str, kind


@block(needs="nothing", sound="leaving a loop right before `return E` is returning E from inside it")
def break_to_return(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not isinstance(s, LOOPS) or not own_breaks(s.body):
            continue
        if i + 1 < len(body):
            follower = body[i + 1]
            if not isinstance(follower, ast.Return):
                continue
        elif place.tail:
            follower = ast.Return(value=None)
        else:
            continue
        new = clone(s)
        _replace_breaks(new.body, follower)
        return replaced(body, i, new)
    return None


def _replace_breaks(body: list[ast.stmt], new: ast.stmt) -> None:
    for i, s in enumerate(body):
        if isinstance(s, ast.Break):
            body[i] = clone(new)
        elif isinstance(s, LOOPS):
            _replace_breaks(s.orelse, new)
        elif not isinstance(s, NESTED):
            for inner in blocks(s):
                _replace_breaks(inner, new)


@block(needs="nothing", sound="without `break`, a loop's `else` always runs after it")
def loop_else(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if isinstance(s, LOOPS) and s.orelse and not own_breaks(s.body):
            new = clone(s)
            new.orelse = []
            return replaced(body, i, new, *s.orelse)
    return None


@block(
    needs="nothing",
    sound="`while True` that starts by leaving under a condition is `while` the condition does not hold",
)
def while_true(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    from skyt.rules.orientation import negation

    for i, s in enumerate(body):
        if not (isinstance(s, ast.While) and is_true(s.test) and not s.orelse and len(s.body) > 1):
            continue
        first = s.body[0]
        if not (isinstance(first, ast.If) and not first.orelse):
            continue
        if len(first.body) == 1 and isinstance(first.body[0], ast.Break):
            test = negation(first.test, place)
            if test is not None:
                return replaced(body, i, ast.While(test=test, body=s.body[1:], orelse=[]))
        if isinstance(first.body[-1], ast.Return) and not own_breaks(s.body):
            test = negation(first.test, place)
            if test is not None:
                return replaced(body, i, ast.While(test=test, body=s.body[1:], orelse=[]), *first.body)
    return None


@block(
    needs="a str, or a list the body does not change; an index used only to read the element",
    sound="the elements come in the order of their indices",
)
def index_to_element(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for i in range(len(s)): … s[i] …` becomes `for c in s: … c …`."""
    for k, s in enumerate(body):
        if not (isinstance(s, ast.For) and isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)):
            continue
        index, source = s.target.id, _range_of_len(s.iter)
        if source is None or index in place.live_at(s) or source.id in stored_names(s):
            continue
        t = place.scope.type_of(source)
        if not (is_str(t) or kind(t) == "list"):
            continue
        scope = place.scope
        if not is_str(t) and disturbs(scope.effects(s.body), Effects(heap_reads={source.id}), scope):
            continue
        lookup = ast.Subscript(value=source, slice=load(index), ctx=ast.Load())
        uses = sum(isinstance(n, ast.Subscript) and same(n, lookup) for n in walk(s.body))
        if (
            not uses
            or uses != count_reads(s.body, index)
            or index in {n for x in s.body for n in stored_names(x)}
        ):
            continue
        new = clone(s)
        element = place.context.name("c")
        new.target, new.iter = ast.Name(id=element, ctx=ast.Store()), clone(source)
        new.body = [_Lookup(lookup, element).visit(x) for x in new.body]
        return replaced(body, k, new)
    return None


def _range_of_len(node: ast.Call) -> ast.Name | None:
    if not (isinstance(node.func, ast.Name) and node.func.id == "range"):
        return None
    args = node.args[1:] if len(node.args) == 2 and int_value(node.args[0]) == 0 else node.args
    if len(args) != 1:
        return None
    inner = args[0]
    if (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Name)
        and inner.func.id == "len"
        and len(inner.args) == 1
        and isinstance(inner.args[0], ast.Name)
    ):
        return inner.args[0]
    return None


class _Lookup(ast.NodeTransformer):
    def __init__(self, lookup: ast.expr, name: str) -> None:
        self.lookup, self.name = lookup, name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return load(self.name) if same(node, self.lookup) else self.generic_visit(node)


@block(needs="an index that is never read", sound="numbers that nobody reads need not be made")
def drop_enumerate(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    for i, s in enumerate(body):
        if not (isinstance(s, ast.For) and isinstance(s.target, ast.Tuple) and len(s.target.elts) == 2):
            continue
        first, second = s.target.elts
        made = s.iter
        if not (
            isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "enumerate"
        ):
            continue
        if not isinstance(first, ast.Name) or len(made.args) != 1 or made.keywords:
            continue
        if count_reads(s.body, first.id) or first.id in place.live_at(s):
            continue
        new = clone(s)
        new.target, new.iter = second, made.args[0]
        return replaced(body, i, new)
    return None
