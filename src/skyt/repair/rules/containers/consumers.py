"""Consumers: what `sum`, `sorted`, `join` and the like go through, in one form."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import load, store, substitute
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.patterns.pieces import first, pieces, value
from skyt.repair.rules.registry import expression

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset", "any", "all"})
SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MAPPED = frozenset({"int", "str", "len", "abs", "ord", "chr", "bool"})


def consumes(node: ast.Call, scope: Scope) -> bool:
    """Whether a call uses up its argument at once, whatever it is."""
    joins = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
    if joins and is_str(scope.type_of(node.func.value)):  # type: ignore[attr-defined]
        return True
    return scope.builtin(node.func) in CONSUMERS


@expression(
    ast.Call,
    needs="a consumer that uses up its argument at once; for `map` and `filter`: a lambda with one "
    "parameter, a builtin, or a function of the program; for `reversed`: a str or list",
    sound="the same elements come in the same order, whether in a list first or one by one",
    fires=(
        "s: str; xs: list[int]",
        "return [''.join([c for c in s if c != 'a']), list(map(ord, s)), list(filter(lambda c: c != 'a', s)),"
        " list(reversed(xs)), sorted(list(x % 3 for x in xs))]",
    ),
    keeps=(
        "s: str; xs: list[int]",
        "return [any([1 // x for x in xs]), sum(reversed(range(len(xs))))]",
    ),
)
def plain_argument(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`"".join([…])` is `"".join(…)`, `list(x for …)` a list comprehension, `sum(map(f, e))` is `sum(f(x) for
    x in e)`, `sorted(list(e))` is `sorted(e)`, `list(reversed(x))` is `list(x[::-1])`."""
    if len(node.args) != 1 or not consumes(node, scope):
        return None
    only = node.args[0]
    copied = pieces("list(e)", only)
    if node.keywords and (copied is None or isinstance(copied["e"], ast.GeneratorExp)):
        return None
    if scope.builtin(node.func) == "list" and isinstance(only, ast.GeneratorExp):
        return ast.ListComp(elt=only.elt, generators=only.generators)
    if copied is not None:
        new = copied["e"] if _in_step(node, copied["e"], scope) else None
    elif isinstance(only, ast.ListComp):
        lazily = ast.GeneratorExp(elt=only.elt, generators=only.generators)
        new = lazily if _in_step(node, only, scope) else None
    else:
        new = _reversed(only, scope) or _mapped(only, scope)
    return ast.Call(func=node.func, args=[new], keywords=node.keywords) if new is not None else None


def _in_step(node: ast.Call, made: ast.expr, scope: Scope) -> bool:
    """Whether it cannot be told if a consumer takes the elements one by one or all at once: it makes a list
    first anyway, or it cannot fail on them, or making them cannot."""
    name = scope.builtin(node.func)
    if name in {"any", "all"}:
        return isinstance(made, ast.ListComp) and scope.effects(made).total
    if not isinstance(made, ast.ListComp | ast.GeneratorExp) or name in {"", "sorted", "list", "tuple"}:
        return True
    t = scope.type_of(made.elt)
    plain = t in {"int", "bool"} or (name in {"set", "frozenset", "max", "min"} and is_str(t))
    return plain or scope.effects(made).total


def _reversed(node: ast.expr, scope: Scope) -> ast.expr | None:
    p = pieces("reversed(x)", node)
    t = scope.type_of(p["x"]) if p is not None else None
    return value("x[::-1]", x=p["x"]) if p is not None and (is_str(t) or kind(t) == "list") else None


def _mapped(node: ast.expr, scope: Scope) -> ast.expr | None:
    p = first(node, "map(f, e)", "filter(f, e)")
    if p is None:
        return None
    variable, function = scope.fresh(p["f"]), p["f"]
    if isinstance(function, ast.Lambda):
        names = [a.arg for a in function.args.args]
        if len(names) != 1 or any(isinstance(n, SCOPED) for n in walk(function.body)):
            return None
        result = substitute(clone(function.body), {names[0]: load(variable)})
    elif getattr(function, "id", "") in scope.program.by_name or scope.builtin(function) in MAPPED:
        result = ast.Call(func=clone(function), args=[load(variable)], keywords=[])
    else:
        return None
    generator = ast.comprehension(target=store(variable), iter=p["e"], ifs=[], is_async=0)
    if pieces("filter(f, e)", node):
        generator.ifs, result = [result], load(variable)
    return ast.GeneratorExp(elt=result, generators=[generator])
