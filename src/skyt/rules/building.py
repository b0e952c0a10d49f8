"""Lists and strings built in a loop: one form with comprehension, join, extend and +."""

from __future__ import annotations

import ast

from skyt.rules.assignments import private, simple_target
from skyt.rules.branches import negation, replaced
from skyt.rules.effects import disturbs
from skyt.rules.registry import Place, block, expression
from skyt.rules.scope import Scope
from skyt.rules.syntax import call, clone, count_reads, int_value, load, same, stored_names, walk
from skyt.rules.types import is_int, is_str, kind

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset"})
FORBIDDEN = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def _built(s: ast.For) -> tuple[list[ast.expr], ast.stmt] | None:
    """(conditions, the one statement under them) of a loop that does one thing."""
    if s.orelse or any(isinstance(n, FORBIDDEN) for n in walk(s)):
        return None
    conditions: list[ast.expr] = []
    body = s.body
    while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        conditions.append(body[0].test)
        body = body[0].body
    return (conditions, body[0]) if len(body) == 1 else None


def _generator(s: ast.For, conditions: list[ast.expr]) -> ast.comprehension:
    return ast.comprehension(target=s.target, iter=s.iter, ifs=conditions, is_async=0)


def _start(body: list[ast.stmt], index: int, name: str, place: Place) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name in between."""
    for k in range(index - 1, -1, -1):
        if simple_target(body[k]) == name:
            return k
        if any(isinstance(n, ast.Name) and n.id == name for n in walk(body[k])):
            return None
    return None


@block(
    needs="a new empty list (or string) that only this loop fills; loop variables dead after the loop",
    sound="a comprehension evaluates the same conditions and elements in the same order",
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; with strings it is a join."""
    for j, s in enumerate(body):
        if not isinstance(s, ast.For):
            continue
        built = _built(s)
        if built is None or stored_names(s.target) & place.live_at(s):
            continue
        conditions, last = built
        found = _appended(last) or _added(last, place)
        if found is None:
            continue
        name, item, text_like = found
        start = _start(body, j, name, place)
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
        if any(count_reads(p, name) for p in parts):
            continue
        generators = [_generator(s, conditions)]
        value: ast.expr = ast.ListComp(elt=item, generators=generators)
        if text_like:
            join = ast.Attribute(value=ast.Constant(value=""), attr="join", ctx=ast.Load())
            value = call(join, ast.GeneratorExp(elt=item, generators=generators))
        new = ast.Assign(targets=first.targets, value=value, lineno=0)
        return [*body[:start], *body[start + 1 : j], new, *body[j + 1 :]]
    return None


def _appended(s: ast.stmt) -> tuple[str, ast.expr, bool] | None:
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


@expression(
    ast.Call,
    needs="a consumer that uses up its argument at once",
    sound="the same elements come in the same order, whether in a list first or one by one",
)
def generator_argument(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`"".join([…])` is `"".join(…)`; `list(x for …)` is a list comprehension."""
    if len(node.args) != 1 or node.keywords:
        return None
    only = node.args[0]
    if isinstance(node.func, ast.Name) and node.func.id == "list" and isinstance(only, ast.GeneratorExp):
        return ast.ListComp(elt=only.elt, generators=only.generators)
    joins = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
    joins = joins and is_str(scope.type_of(node.func.value))  # type: ignore[attr-defined]
    named = isinstance(node.func, ast.Name) and node.func.id in CONSUMERS
    if isinstance(only, ast.ListComp) and (joins or named):
        return ast.Call(
            func=node.func, args=[ast.GeneratorExp(elt=only.elt, generators=only.generators)], keywords=[]
        )
    any_or_all = isinstance(node.func, ast.Name) and node.func.id in {"any", "all"}
    if isinstance(only, ast.ListComp) and any_or_all:
        scope_inside = scope
        parts = [only.elt, *(c for g in only.generators for c in g.ifs)]
        if all(scope_inside.effects(p).total for p in parts):
            return ast.Call(
                func=node.func, args=[ast.GeneratorExp(elt=only.elt, generators=only.generators)], keywords=[]
            )
    return None


@expression(
    ast.GeneratorExp,
    ast.ListComp,
    needs="nothing",
    sound="a comprehension that gives every element unchanged is its source",
)
def identity_comprehension(
    node: ast.GeneratorExp | ast.ListComp, scope: Scope, boolean: bool
) -> ast.expr | None:
    g = node.generators[0]
    if len(node.generators) != 1 or g.ifs or g.is_async or not same(node.elt, g.target):
        return None
    if not isinstance(g.target, ast.Name):
        return None
    if isinstance(node, ast.ListComp):
        return call("list", g.iter)
    # A generator over a str or list may become that str or list where it is used up at once.
    return None


@expression(
    ast.Call,
    needs="a str or list as source; a consumer that uses it up at once",
    sound="iterating over a generator that passes elements on is iterating over its source",
)
def bare_source(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`"".join(c for c in s)` is `"".join(s)`, which for a str is s."""
    if len(node.args) != 1 or node.keywords:
        return None
    only = node.args[0]
    joins = (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and isinstance(node.func.value, ast.Constant)
    )
    named = isinstance(node.func, ast.Name) and node.func.id in CONSUMERS | {"any", "all"}
    if joins and is_str(scope.type_of(only)) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Constant) and node.func.value.value == "":
            return only
    if not isinstance(only, ast.GeneratorExp) or not (joins or named):
        return None
    g = only.generators[0]
    if (
        len(only.generators) == 1
        and not g.ifs
        and same(only.elt, g.target)
        and isinstance(g.target, ast.Name)
    ):
        return ast.Call(func=node.func, args=[g.iter], keywords=[])
    return None


@expression(
    ast.Subscript,
    ast.Call,
    needs="a list",
    sound="`x[:]`, `x.copy()` and `list(x)` all make a new list of the same elements",
)
def copy_of_list(node: ast.Subscript | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Subscript):
        s = node.slice
        whole = isinstance(s, ast.Slice) and s.lower is None and s.upper is None and s.step is None
        if whole and isinstance(node.ctx, ast.Load):
            if kind(scope.type_of(node.value)) == "list":
                return call("list", node.value)
            if is_str(scope.type_of(node.value)):
                return node.value
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
        if kind(scope.type_of(node.func.value)) == "list":
            return call("list", node.func.value)
    return None


@block(
    needs="a list; a program none of whose functions changes an object that is not its own",
    sound="results are observed by value, and nobody in the program could change what two names share",
)
def return_without_copy(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return list(x)` is `return x` where nothing is ever changed in place."""
    last = body[-1]
    if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Call)):
        return None
    made = last.value
    if not (isinstance(made.func, ast.Name) and made.func.id == "list" and len(made.args) == 1):
        return None
    program, source = place.scope.program, made.args[0]
    if not isinstance(source, ast.Name) or kind(place.scope.type_of(source)) != "list":
        return None
    if program.facts.kind == "class" or set(program.by_name) - program.pure:
        return None
    return [*body[:-1], ast.Return(value=source)]


@expression(
    ast.List,
    needs="operands of type list",
    sound="unpacking lists into a list is concatenating them",
)
def unpack_to_concatenation(node: ast.List, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[*a, x, *b]` is `a + [x] + b`."""
    if not any(isinstance(e, ast.Starred) for e in node.elts) or not isinstance(node.ctx, ast.Load):
        return None
    parts: list[ast.expr] = []
    for e in node.elts:
        if isinstance(e, ast.Starred):
            if kind(scope.type_of(e.value)) != "list":
                return None
            parts.append(e.value)
        elif parts and isinstance(parts[-1], ast.List):
            parts[-1] = ast.List(elts=[*parts[-1].elts, e], ctx=ast.Load())
        else:
            parts.append(ast.List(elts=[e], ctx=ast.Load()))
    if len(parts) == 1:
        return call("list", parts[0])
    result = parts[0]
    for part in parts[1:]:
        result = ast.BinOp(left=result, op=ast.Add(), right=part)
    return result


@expression(
    ast.Subscript,
    needs="a str or list",
    sound="a slice starts at 0 and ends at the length unless it says otherwise",
)
def plain_slice(node: ast.Subscript, scope: Scope, boolean: bool) -> ast.expr | None:
    if not isinstance(node.slice, ast.Slice):
        return None
    t = scope.type_of(node.value)
    if not (is_str(t) or kind(t) == "list") or (
        node.slice.step is not None and int_value(node.slice.step) != 1
    ):
        return None
    s = node.slice
    lower = None if s.lower is not None and int_value(s.lower) == 0 else s.lower
    upper = s.upper
    if upper is not None and same(upper, call("len", node.value)):
        upper = None
    if lower is s.lower and upper is s.upper and s.step is None:
        return None
    return ast.Subscript(value=node.value, slice=ast.Slice(lower=lower, upper=upper, step=None), ctx=node.ctx)


@block(
    needs="a list other than the one filled",
    sound="appending every element in order is extending by them",
)
def append_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`for x in e: r.append(x)` is `r.extend(e)`; `for k in range(i, len(x)): r.append(x[k])` is `r.extend(x[i:])`."""
    for i, s in enumerate(body):
        if not (
            isinstance(s, ast.For) and isinstance(s.target, ast.Name) and len(s.body) == 1 and not s.orelse
        ):
            continue
        found = _appended(s.body[0])
        if found is None or s.target.id in place.live_at(s):
            continue
        name, item, _ = found
        if name == s.target.id or name not in place.scope.owned:
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
    needs="a list that the function made and hands out only here; list operands",
    sound="nobody else holds the list, so a new list with the same elements cannot be told apart",
)
def extend_then_return(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r.extend(a); return r + b` is `return r + a + b`."""
    for i, (s, t) in enumerate(zip(body, body[1:], strict=False)):
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


@expression(
    ast.BinOp,
    needs="operands of type str, or of type list",
    sound="concatenation is associative",
)
def concatenate_left(node: ast.BinOp, scope: Scope, boolean: bool) -> ast.expr | None:
    right = node.right
    if not (isinstance(node.op, ast.Add) and isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add)):
        return None
    types = [scope.type_of(x) for x in (node.left, right.left, right.right)]
    if all(is_str(t) for t in types) or all(kind(t) == "list" for t in types):
        inner = ast.BinOp(left=node.left, op=ast.Add(), right=right.left)
        return ast.BinOp(left=inner, op=ast.Add(), right=right.right)
    return None


@block(
    needs="a generator with one `for`; conditions in front of it of type bool",
    sound="`any` and `all` evaluate one element after the other and stop at the first that decides",
)
def expand_quantifier(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return all(p for x in e)` is a loop that returns False at the first x without p."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.Return) and s.value is not None):
            continue
        value, before = s.value, list[ast.stmt]()
        if isinstance(value, ast.BoolOp) and _quantifier(value.values[-1]) is not None:
            rest = value.values[:-1]
            if not all(place.scope.type_of(v) == "bool" for v in rest):
                continue
            first: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(op=value.op, values=rest)
            answer = isinstance(value.op, ast.Or)
            test = first if answer else negation(first, place)
            if test is None:
                continue
            before = [ast.If(test=test, body=[ast.Return(value=ast.Constant(value=answer))], orelse=[])]
            value = value.values[-1]
        found = _quantifier(value)
        if found is None:
            continue
        is_all, positive, generator = found
        g = generator.generators[0]
        names = {
            n.id: place.context.name(n.id.rstrip("0123456789_") or "c")
            for n in walk(g.target)
            if isinstance(n, ast.Name)
        }
        from skyt.rules.syntax import rename

        target = rename(clone(g.target), names)
        element = rename(clone(generator.elt), names)
        test = negation(element, place) if is_all else element
        if test is None:
            continue
        stop = not is_all if positive else is_all
        inner: list[ast.stmt] = [
            ast.If(test=test, body=[ast.Return(value=ast.Constant(value=stop))], orelse=[])
        ]
        for condition in reversed(g.ifs):
            inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
        loop = ast.For(target=target, iter=g.iter, body=inner, orelse=[], lineno=0)
        return [*body[:i], *before, loop, ast.Return(value=ast.Constant(value=not stop)), *body[i + 1 :]]
    return None


def _quantifier(node: ast.expr) -> tuple[bool, bool, ast.GeneratorExp] | None:
    """(all rather than any, not negated, the generator)."""
    positive = True
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, positive = node.operand, not positive
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1):
        return None
    only = node.args[0]
    if (
        node.func.id not in {"any", "all"}
        or not isinstance(only, ast.GeneratorExp)
        or len(only.generators) != 1
    ):
        return None
    return node.func.id == "all", positive, only


__all__ = ["disturbs", "is_int"]
