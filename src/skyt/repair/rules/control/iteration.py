"""Iteration: map, filter and reversed as comprehensions and slices; sorting in place as a value."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import assign, call, load, read_names, substitute
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.containers.sequences import CONSUMERS, _in_step
from skyt.repair.rules.control.loops import backwards
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.conditions import integer, of_kind, small
from skyt.repair.rules.patterns.pieces import first, pieces
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import Place, expression, statement

SCOPED = (ast.Lambda, ast.NamedExpr, ast.Yield, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MAPPED = frozenset({"int", "str", "len", "abs", "ord", "chr", "bool"})


@expression(
    ast.Call,
    needs="a consumer that uses up its argument at once; a lambda with one parameter, a builtin, or a "
    "function of the program that is given to map or filter",
    sound="the same function is applied to the same elements in the same order",
    fires=("s: str", "return list(map(ord, s)) + list(filter(lambda c: c != 'a', s))"),
    keeps=("s: str", "m = map(ord, s)\nreturn [next(m, 0), sum(m)]"),
)
def map_to_generator(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`list(map(f, e))` is `list(f(x) for x in e)`; `filter` keeps the elements under a condition."""
    p = first(node.args[0], "map(f, e)", "filter(f, e)") if len(node.args) == 1 else None
    applied = _applied(p["f"], scope) if p is not None else None
    if p is None or applied is None or node.keywords or not consumes(node, scope):
        return None
    variable, result = applied
    target = ast.Name(id=variable, ctx=ast.Store())
    generator = ast.comprehension(target=target, iter=p["e"], ifs=[], is_async=0)
    if pieces("filter(f, e)", node.args[0]):
        generator.ifs, result = [result], load(variable)
    return call(node.func, ast.GeneratorExp(elt=result, generators=[generator]))


def _applied(function: ast.expr, scope: Scope) -> tuple[str, ast.expr] | None:
    """(variable, the function applied to it)."""
    variable = scope.fresh(function)
    if isinstance(function, ast.Lambda):
        a = function.args
        plain = len(a.args) == 1 and not a.defaults
        if not plain or any(isinstance(n, SCOPED) for n in walk(function.body)):
            return None
        return variable, substitute(clone(function.body), {a.args[0].arg: load(variable)})
    own = isinstance(function, ast.Name) and function.id in scope.program.by_name
    if own or scope.builtin(function) in MAPPED:
        return variable, ast.Call(func=clone(function), args=[load(variable)], keywords=[])
    return None


def consumes(node: ast.Call, scope: Scope) -> bool:
    """Whether a call uses up its argument at once, whatever it is."""
    if scope.builtin(node.func) in CONSUMERS | {"any", "all"}:
        return True
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "join"
        and is_str(scope.type_of(function.value))
    )


@expression(
    ast.Call,
    needs="a str or list; a consumer that uses it up at once",
    sound="`reversed` gives the elements of the slice with step -1, in the same order",
    fires=("xs: list[int]", "return list(reversed(xs))"),
    keeps=("xs: list[int]", "return list(reversed(range(len(xs))))"),
)
def reversed_to_slice(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`list(reversed(x))` is `list(x[::-1])`."""
    p = pieces("reversed(x)", node.args[0]) if len(node.args) == 1 else None
    if p is None or node.keywords or not consumes(node, scope):
        return None
    t = scope.type_of(p["x"])
    return call(node.func, backwards(p["x"])) if is_str(t) or kind(t) == "list" else None


@statement(
    ast.Expr,
    needs="a list that the function owns",
    sound="nobody else holds the list, so a new list in its place cannot be told apart",
    fires=("xs: list[int]", "r = list(xs)\nr.sort()\nr.reverse()\nreturn r"),
    keeps=("xs: list[int]", "xs.sort()\nreturn xs"),
)
def change_in_place(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`x.sort()` is `x = sorted(x)`, `x.reverse()` is `x = x[::-1]`."""
    made = s.value if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) else None
    if made is None or not isinstance(made.func, ast.Attribute) or made.args:
        return None
    x = made.func.value
    if not isinstance(x, ast.Name) or x.id not in place.scope.owned or not private(x.id, place):
        return None
    if kind(place.scope.type_of(x)) != "list" or _gone_through(x.id, s, place):
        return None
    if made.func.attr == "reverse" and not made.keywords:
        return [assign(x.id, backwards(load(x.id)))]
    if made.func.attr == "sort" and not read_names(made.keywords):
        value = ast.Call(func=load("sorted"), args=[load(x.id)], keywords=made.keywords)
        return [assign(x.id, value)]
    return None


def _gone_through(name: str, s: ast.stmt, place: Place) -> bool:
    """Whether a statement stands in a loop over this list, which goes on with the old one."""
    info = place.scope.info
    loops = [n for n in walk(info.node) if isinstance(n, ast.For)] if info is not None else []
    return any(name in read_names(n.iter) and any(x is s for x in walk(n.body)) for n in loops)


@expression(
    ast.Call,
    needs="a consumer that goes through all elements at once",
    sound="going through a list of the elements is going through the elements",
    fires=("xs: list[int]", "return sorted(list(x % 3 for x in xs))"),
    keeps=("xs: list[int]", "return any(list(3 // x for x in xs))"),
)
def consume_directly(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`sorted(list(e))` is `sorted(e)`."""
    p = pieces("list(e)", node.args[0]) if len(node.args) == 1 else None
    if p is None or not consumes(node, scope) or scope.builtin(node.func) in {"any", "all"}:
        return None
    if isinstance(p["e"], ast.GeneratorExp) and not _in_step(node, p["e"], scope):
        return None
    return ast.Call(func=node.func, args=[p["e"]], keywords=node.keywords)


rewrite(
    "expand-divmod",
    ("divmod(a, b)", "(a // b, a % b)"),
    needs=[integer("a", "b"), small("a", "b")],
    because="`divmod` of two integers is their quotient and their remainder",
    fires=("n: int; m: int", "q, r = divmod(n, m)\nreturn q + r"),
    keeps=("x: float; y: float", "q, r = divmod(x, y)\nreturn q + r"),
)
rewrite(
    "set-operator",
    ("a.intersection(b)", "a & b"),
    ("a.union(b)", "a | b"),
    ("a.difference(b)", "a - b"),
    ("a.symmetric_difference(b)", "a ^ b"),
    needs=[of_kind("set", "a", "b")],
    because="the method of a set, given a set, is its operator",
    fires=("s: str; t: str", "return sorted(set(s).intersection(set(t)))"),
    keeps=("s: str; t: str", "return sorted(set(s).intersection(t))"),
)
