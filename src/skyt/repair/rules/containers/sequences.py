"""Sequences: one form for copies, slices, joins and concatenations."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, int_value
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.registry import Place, block, expression

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset"})


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
    if isinstance(only, ast.ListComp) and (joins or (named and _in_step(node, only, scope))):
        return ast.Call(
            func=node.func, args=[ast.GeneratorExp(elt=only.elt, generators=only.generators)], keywords=[]
        )
    any_or_all = isinstance(node.func, ast.Name) and node.func.id in {"any", "all"}
    if isinstance(only, ast.ListComp) and any_or_all and scope.effects(only).total:
        return ast.Call(
            func=node.func, args=[ast.GeneratorExp(elt=only.elt, generators=only.generators)], keywords=[]
        )
    return None


def _in_step(node: ast.Call, made: ast.ListComp | ast.GeneratorExp, scope: Scope) -> bool:
    """Whether it cannot be told if a consumer takes the elements one by one or all at once: it makes a list
    first anyway, or it cannot fail on them, or making them cannot."""
    name, t = scope.builtin(node.func), scope.type_of(made.elt)
    if name in {"sorted", "list", "tuple"} or scope.effects(made).total:
        return True
    return t in {"int", "bool"} or (name in {"set", "frozenset", "max", "min"} and is_str(t))


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
    if joins and is_str(scope.type_of(only)) and ast.unparse(node.func) == "''.join":
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
    copies = isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args
    if copies and kind(scope.type_of(node.func.value)) == "list":  # type: ignore[attr-defined]
        return call("list", node.func.value)  # type: ignore[attr-defined]
    return None


@block(
    ast.Return,
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
    if upper is not None and same(upper, call("len", node.value)) and scope.effects(node.value).pure:
        upper = None
    if lower is s.lower and upper is s.upper and s.step is None:
        return None
    return ast.Subscript(value=node.value, slice=ast.Slice(lower=lower, upper=upper, step=None), ctx=node.ctx)


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
