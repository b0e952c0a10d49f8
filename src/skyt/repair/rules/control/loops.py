"""Loops: one shape for exits, for counting loops, and for iteration by index."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    LOOPS,
    blocks,
    count_reads,
    int_value,
    is_true,
    load,
    number,
    own_breaks,
    stored_names,
    substitute,
)
from skyt.repair.rules.analysis.trees.trees import NESTED, clone, same, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.expressions.comparisons import opposite
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import first, made, pieces, value
from skyt.repair.rules.registry import Place, block, statement


@block(
    ast.For,
    ast.While,
    needs="nothing",
    sound="leaving a loop right before `return E` is returning E from inside it",
    fires=("xs: list[int]", "t = 1\nfor x in xs:\n if x < 1:\n  t = 2\n  break\nreturn t"),
    keeps=("xs: list[int]", "t = 1\nfor x in xs:\n if x < 1:\n  break\nt = 3\nreturn t"),
)
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


@statement(
    ast.While,
    needs="nothing",
    sound="`while True` that starts by leaving under a condition is `while` the condition does not hold",
    fires=("n: int >= 0 <= 50", "while True:\n if n < 3:\n  break\n n = n - 1\nreturn n"),
    keeps=("n: int >= 0 <= 50", "while True:\n n = n - 1\n if n < 3:\n  break\nreturn n"),
)
def while_true(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    p = pieces("while t:\n if c: leave\n rest", s)
    if p is None or not is_true(p["t"]) or not isinstance(s, ast.While):
        return None
    test = opposite(p["c"], place.scope)
    leave, jumps = p["leave"], own_breaks(s.body) or own_breaks(p["leave"], (ast.Continue,))
    after = [] if len(leave) == 1 and isinstance(leave[0], ast.Break) else leave
    if not after or (isinstance(leave[-1], ast.Return) and not jumps):
        return [*made("while c: rest", c=test, rest=p["rest"]), *after]
    return None


@statement(
    ast.For,
    needs="a str, or a list the body does not change; an index used only to read the element, from a start "
    "that is not negative",
    sound="the elements come in the order of their indices",
    fires=("s: str", "t = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + 1\nreturn t"),
    keeps=("s: str", "t = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + i\nreturn t"),
)
def index_to_element(s: ast.stmt, place: Place, k: int) -> list[ast.stmt] | None:
    """`for i in range(len(s)): … s[i] …` becomes `for c in s: … c …`; from k on it is `for c in s[k:]`."""
    if not (isinstance(s, ast.For) and isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)):
        return None
    index, scope = s.target.id, place.before(k)
    found = elements_of(s.iter, scope)
    if found is None or index in place.live_at(s) or found[0].id in stored_names(s):
        return None
    source, whole = found
    read = set() if is_str(scope.type_of(source)) else {source.id}
    lookup = value("s[i]", s=source, i=index)
    uses = sum(isinstance(n, ast.Subscript) and same(n, lookup) for n in walk(s.body))
    if not uses or uses != count_reads(s.body, index) or index in stored_names(s.body):
        return None
    if disturbs(scope.effects(s.body), Effects(heap_reads=read), scope):
        return None
    new, element = clone(s), place.context.name("c")
    new.target, new.iter = ast.Name(id=element, ctx=ast.Store()), whole
    new.body = [Lookup(lookup, element).visit(x) for x in new.body]
    return [new]


def elements_of(node: ast.Call, scope: Scope) -> tuple[ast.Name, ast.expr] | None:
    """(s, the elements of the str or list s at the indices of a range): `s[k:]` for `range(k, len(s))`, and
    `s[::-1]` for `range(len(s) - 1, -1, -1)`."""
    back = pieces("range(len(s) - 1, -1, -1)", node)
    p = back or first(node, "range(len(s))", "range(a, len(s))")
    t = scope.type_of(p["s"]) if p is not None else None
    if p is None or not isinstance(p["s"], ast.Name) or not (is_str(t) or kind(t) == "list"):
        return None
    if back or int_value(p.get("a", number(0))) == 0:
        return p["s"], backwards(clone(p["s"])) if back else clone(p["s"])
    low = scope.interval(p["a"])[0]
    if low is None or low < 0 or not scope.effects(p["a"]).total:
        return None
    return p["s"], value("s[a:]", **p)


def backwards(node: ast.expr) -> ast.expr:
    step = ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))
    return ast.Subscript(value=node, slice=ast.Slice(lower=None, upper=None, step=step), ctx=ast.Load())


class Lookup(ast.NodeTransformer):
    def __init__(self, lookup: ast.expr, name: str) -> None:
        self.lookup, self.name = lookup, name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return load(self.name) if same(node, self.lookup) else self.generic_visit(node)


@statement(
    ast.For,
    needs="a str or list under a plain name that the body does not change; a variable for the element that "
    "is neither assigned nor read after the loop",
    sound="the element that comes with an index is the one at that index",
    fires=("xs: list[int]", "t = 0\nfor i, x in enumerate(xs):\n if x > i:\n  t = t * 2 + x\nreturn t"),
    keeps=(
        "xs: list[int]",
        "t = 0\nfor i, x in enumerate(xs):\n if xs.pop() > i:\n  t = t * 2 + x\nreturn t",
    ),
)
def enumerate_to_index(s: ast.stmt, place: Place, k: int) -> list[ast.stmt] | None:
    """`for i, x in enumerate(s): … x …` is `for i in range(len(s)): … s[i] …`."""
    scope = place.scope
    p = pieces("for i, x in enumerate(s): body", s)
    if p is None or not isinstance(p["s"], ast.Name):
        return None
    i, x, whole, t = p["i"].id, p["x"].id, p["s"].id, scope.type_of(p["s"])
    if not (is_str(t) or kind(t) == "list") or len({i, x, whole}) != 3 or x in place.live_at(s):
        return None
    if not private(x, place) or {i, x, whole} & stored_names(p["body"]):
        return None
    if not is_str(t) and disturbs(scope.effects(p["body"]), Effects(heap_reads={whole}), scope):
        return None
    lookup = value("s[i]", s=whole, i=i)
    inner = [substitute(clone(n), {x: lookup}) for n in p["body"]]
    return made("for i in range(len(s)): body", i=i, s=whole, body=inner)
