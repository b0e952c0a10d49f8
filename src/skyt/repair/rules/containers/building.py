"""Lists and strings built in a loop: one form with comprehension, join, extend and +."""

from __future__ import annotations

import ast
from itertools import pairwise

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import assign, call, count_reads, load, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.registry import Place, block


def built(s: ast.For) -> tuple[list[ast.expr], ast.stmt] | None:
    """(conditions, the one statement under them) of a loop that does one thing."""
    if s.orelse:
        return None
    conditions: list[ast.expr] = []
    body = s.body
    while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        conditions.append(body[0].test)
        body = body[0].body
    return (conditions, body[0]) if len(body) == 1 else None


def generator_of(s: ast.For, conditions: list[ast.expr]) -> ast.comprehension:
    return ast.comprehension(target=s.target, iter=s.iter, ifs=conditions, is_async=0)


def start_of(body: list[ast.stmt], index: int, name: str) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name in between."""
    for k in range(index - 1, -1, -1):
        if simple_target(body[k]) == name:
            return k
        if any(isinstance(n, ast.Name) and n.id == name for n in walk(body[k])):
            return None
    return None


@block(
    ast.For,
    needs="a new empty list (or string) that only this loop fills; loop variables dead after the loop",
    sound="a comprehension evaluates the same conditions and elements in the same order",
    fires=("xs: list[int]", "def f(xs):\n r = []\n for x in xs:\n  if x > 1:\n   r.append(x)\n return r"),
    keeps=("xs: list[int]", "def f(xs):\n r = []\n for x in xs:\n  r.append(len(r))\n return r"),
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; with strings it is a join."""
    for j, s in enumerate(body):
        if not isinstance(s, ast.For):
            continue
        parts_of = built(s)
        if parts_of is None or stored_names(s.target) & place.live_at(s):
            continue
        conditions, last = parts_of
        found = appended(last) or _added(last, place)
        if found is None:
            continue
        name, item, text_like = found
        start = start_of(body, j, name)
        if (
            start is None
            or not private(name, place)
            or not all(private(n, place) for n in stored_names(s.target))
        ):
            continue
        first = body[start]
        if not isinstance(first, ast.Assign) or not _is_empty(first.value, text_like):
            continue
        parts = [item, s.iter, *conditions]
        if any(count_reads(p, name) for p in parts) or needs_loop(item, place.scope):
            continue
        generators = [generator_of(s, conditions)]
        value: ast.expr = ast.ListComp(elt=item, generators=generators)
        if text_like:
            join = ast.Attribute(value=ast.Constant(value=""), attr="join", ctx=ast.Load())
            value = call(join, ast.GeneratorExp(elt=item, generators=generators))
        new = ast.Assign(targets=first.targets, value=value, lineno=0)
        return [*body[:start], *body[start + 1 : j], new, *body[j + 1 :]]
    return None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: it is a choice, or a private function of several
    statements is called."""
    if isinstance(node, ast.IfExp):
        return True
    functions = scope.program.by_name
    called = (n.func.id for n in walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    return any(c in functions and not functions[c].public and len(functions[c].node.body) > 1 for c in called)


@block(
    ast.Return,
    ast.Assign,
    needs="a comprehension as the whole value, whose element is a choice or calls a private function of "
    "several statements",
    sound="a comprehension evaluates the same conditions and elements in the same order as a loop",
    fires=(
        "xs: list[int]",
        "def f(xs):\n return sum(g(x) for x in xs if x)\ndef g(k):\n if k > 2:\n  return k\n return 7 // k",
    ),
    keeps=("xs: list[int]", "def f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1"),
)
def comprehension_to_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return [helper(x) for x in e]` becomes a loop, in which the helper can be put where it is called."""
    for i, s in enumerate(body):
        if not isinstance(s, ast.Return | ast.Assign) or s.value is None:
            continue
        found = _collected(s.value, place.scope)
        if found is None or not needs_loop(found[0].elt, place.scope):
            continue
        made, start = found
        g = made.generators[0]
        if len(made.generators) != 1:
            continue
        bound = sorted(stored_names(g.target))
        names = {n: place.context.name(n.rstrip("0123456789_") or "c") for n in bound}
        element = rename(clone(made.elt), names)
        result = place.context.name("r")
        if isinstance(start, ast.List):
            method = ast.Attribute(value=load(result), attr="append", ctx=ast.Load())
            inner: list[ast.stmt] = [ast.Expr(value=call(method, element))]
        else:
            inner = [assign(result, ast.BinOp(left=load(result), op=ast.Add(), right=element))]
        for condition in reversed(g.ifs):
            inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
        loop = ast.For(target=rename(clone(g.target), names), iter=g.iter, body=inner, orelse=[], lineno=0)
        last = clone(s)
        last.value = load(result)
        return replaced(body, i, assign(result, start), loop, last)
    return None


def _collected(value: ast.expr, scope: Scope) -> tuple[ast.ListComp | ast.GeneratorExp, ast.expr] | None:
    """(comprehension, what an empty one gives) of a list, a join without separator, or a sum of integers."""
    if isinstance(value, ast.ListComp):
        return value, ast.List(elts=[], ctx=ast.Load())
    if not (isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords):
        return None
    only = value.args[0]
    if not isinstance(only, ast.GeneratorExp):
        return None
    t = scope.type_of(only.elt)
    if scope.builtin(value.func) == "sum" and t == "int":
        return only, ast.Constant(value=0)
    function = value.func
    empty = isinstance(function, ast.Attribute) and function.attr == "join"
    empty = empty and same(function.value, ast.Constant(value=""))  # type: ignore[attr-defined]
    return (only, ast.Constant(value="")) if empty and is_str(t) else None


def appended(s: ast.stmt) -> tuple[str, ast.expr, bool] | None:
    if not (
        isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute)
    ):
        return None
    function = s.value.func
    if function.attr != "append" or not isinstance(function.value, ast.Name) or len(s.value.args) != 1:
        return None
    return function.value.id, s.value.args[0], False


def _added(s: ast.stmt, place: Place) -> tuple[str, ast.expr, bool] | None:
    name = simple_target(s)
    if name is None or not isinstance(s, ast.Assign):
        return None
    value = s.value
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and same(value.left, load(name))):
        return None
    both = is_str(place.scope.type_of(load(name))) and is_str(place.scope.type_of(value.right))
    return (name, value.right, True) if both else None


def _is_empty(value: ast.expr, text_like: bool) -> bool:
    if text_like:
        return isinstance(value, ast.Constant) and value.value == ""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "list" and not value.args
    return isinstance(value, ast.List) and not value.elts


@block(
    ast.For,
    needs="a list other than the one filled",
    sound="appending every element in order is extending by them",
    fires=("xs: list[int]", "def f(xs):\n r = [0]\n for x in xs:\n  r.append(x)\n return r"),
    keeps=("xs: list[int]", "def f(xs):\n r = xs\n for x in [1, 2]:\n  r.append(x)\n return r"),
)
def append_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for x in e: r.append(x)` is `r.extend(e)`; `for k in range(i, len(x)): r.append(x[k])` is
    `r.extend(x[i:])`."""
    for i, s in enumerate(body):
        if not (
            isinstance(s, ast.For) and isinstance(s.target, ast.Name) and len(s.body) == 1 and not s.orelse
        ):
            continue
        found = appended(s.body[0])
        if found is None or s.target.id in place.live_at(s):
            continue
        name, item, _ = found
        if name == s.target.id or name not in place.scope.owned:
            continue
        if kind(place.scope.type_of(load(name))) != "list":
            continue
        source: ast.expr | None = None
        if same(item, load(s.target.id)) and not count_reads(s.iter, name):
            source = s.iter
        else:
            source = _tail(s, item, place)
        if source is None or count_reads(source, name):
            continue
        method = ast.Attribute(value=load(name), attr="extend", ctx=ast.Load())
        return replaced(body, i, ast.Expr(value=call(method, source)))
    return None


def _tail(s: ast.For, item: ast.expr, place: Place) -> ast.expr | None:
    made = s.iter
    if not (isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "range"):
        return None
    if len(made.args) != 2 or not isinstance(s.target, ast.Name):
        return None
    start, stop = made.args
    if not (
        isinstance(stop, ast.Call)
        and isinstance(stop.func, ast.Name)
        and stop.func.id == "len"
        and len(stop.args) == 1
        and isinstance(stop.args[0], ast.Name)
    ):
        return None
    whole = stop.args[0]
    low = place.scope.interval(start)[0]
    lookup = ast.Subscript(value=whole, slice=load(s.target.id), ctx=ast.Load())
    if low is None or low < 0 or not same(item, lookup) or kind(place.scope.type_of(whole)) != "list":
        return None
    return ast.Subscript(
        value=whole, slice=ast.Slice(lower=clone(start), upper=None, step=None), ctx=ast.Load()
    )


@block(
    ast.Return,
    needs="a list that the function made and hands out only here; list operands",
    sound="nobody else holds the list, so a new list with the same elements cannot be told apart",
    fires=("xs: list[int]", "def f(xs):\n r = [1]\n r.extend(xs)\n return r"),
    keeps=("xs: list[int]", "def f(xs):\n xs.extend([1])\n return xs"),
)
def extend_then_return(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r.extend(a); return r + b` is `return r + a + b`."""
    for i, (s, t) in enumerate(pairwise(body)):
        if not (isinstance(t, ast.Return) and t.value is not None):
            continue
        if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)):
            continue
        function = s.value.func
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            continue
        name = function.value.id
        if (
            function.attr not in {"extend", "append"}
            or len(s.value.args) != 1
            or name not in place.scope.owned
        ):
            continue
        first = _leftmost(t.value)
        if not same(first, load(name)) or count_reads(t, name) != 1:
            continue
        argument = s.value.args[0]
        if function.attr == "append":
            argument = ast.List(elts=[argument], ctx=ast.Load())
        elif kind(place.scope.type_of(argument)) != "list":
            continue
        if count_reads(argument, name) or kind(place.scope.type_of(load(name))) != "list":
            continue
        new = _replace_leftmost(clone(t.value), ast.BinOp(left=load(name), op=ast.Add(), right=argument))
        return [*body[:i], ast.Return(value=new), *body[i + 2 :]]
    return None


def _leftmost(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    return node


def _replace_leftmost(node: ast.expr, new: ast.expr) -> ast.expr:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node.left = _replace_leftmost(node.left, new)
        return node
    return new
