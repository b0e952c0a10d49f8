"""Consumers: what `sum`, `sorted`, `join` and the like go through, in one form."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.infer import dotted
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import call, load, substitute
from skyt.repair.rules.analysis.trees import clone, walk
from skyt.repair.rules.analysis.types import ANY, is_str, kind
from skyt.repair.rules.analysis.vocabulary import LAZY
from skyt.repair.rules.patterns.conditions import Condition, Where, each, of_kind
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found, Value, value

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset", "any", "all"})
IN_TURN = frozenset({"list", "tuple", "deque", "str", "char", "iter"})  # a set of these gets one by one
SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MAPPED = frozenset({"int", "str", "len", "abs", "ord", "chr", "bool"})


def consumes(function: ast.expr, scope: Scope) -> bool:
    """Whether a function uses up its argument at once, whatever it is."""
    if isinstance(function, ast.Attribute) and function.attr == "join":
        return is_str(scope.type_of(function.value))
    return scope.builtin(function) in CONSUMERS


def consumer(name: str) -> Condition:
    return each("uses up its argument at once", (name,), lambda e, where: consumes(e, where.scope))


def in_step(function: str, argument: str, *others: str) -> Condition:
    """It cannot be told if a consumer takes the elements one by one or all at once: it makes a list first
    anyway, or it cannot fail on them, or making them cannot. `others` are its other arguments."""

    def holds(found: Found, where: Where) -> bool:
        scope, made = where.scope, found[argument]
        name, total = scope.builtin(found[function]), scope.effects(made).total  # type: ignore[arg-type]
        if name in {"any", "all"}:
            return isinstance(made, ast.ListComp) and total
        if name in {"set", "frozenset"} and _kind_of(made, scope) not in IN_TURN:
            return False
        if total or not _one_by_one(made, scope):  # type: ignore[arg-type]
            return True
        if name in {"", "sorted", "list", "tuple"}:
            return all(isinstance(found[n], ast.Lambda | ast.Name | ast.Constant) for n in others)
        t = scope.type_of(made.elt) if isinstance(made, ast.ListComp | ast.GeneratorExp) else ANY
        plain = t in {"int", "bool"} or (name in {"set", "frozenset", "max", "min"} and is_str(t))
        return plain and not others

    return Condition(f"`{function}` makes a list first, or elements of `{argument}` cannot fail", holds)


def _one_by_one(node: ast.expr, scope: Scope) -> bool:
    """Whether elements are made when they are asked for, or would be by a generator."""
    lazy = isinstance(node, ast.Call) and (scope.builtin(node.func) in LAZY or dotted(node.func) in LAZY)
    return lazy or isinstance(node, ast.ListComp | ast.GeneratorExp)


def _kind_of(node: Value, scope: Scope) -> str:
    return kind(scope.type_of(node))  # type: ignore[arg-type]


def _turned(given: type[ast.expr], wanted: type[ast.ListComp | ast.GeneratorExp], name: str) -> Made:
    """A list comprehension as a generator, or the other way round."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        made = found[name]
        if not isinstance(made, given) or not isinstance(made, ast.ListComp | ast.GeneratorExp):
            return None
        return wanted(elt=made.elt, generators=made.generators)

    return Made(f"the {given.__name__} `{name}` as a {wanted.__name__}", compute, like=name)


def _generated(template: str, like: str) -> Made:
    """A generator with what a function gives for each element: a lambda with one parameter, a builtin, or a
    function of the program."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        function: Any = found["h"]
        scope, x = where.scope, load(where.scope.fresh(function))
        if isinstance(function, ast.Lambda):
            names = [a.arg for a in function.args.args]
            if len(names) != 1 or any(isinstance(n, SCOPED) for n in walk(function.body)):
                return None
            applied = substitute(clone(function.body), {names[0]: x})
        elif getattr(function, "id", "") in scope.program.by_name or scope.builtin(function) in MAPPED:
            applied = call(clone(function), x)
        else:
            return None
        return value(template, x=x, e=found["e"], y=applied)  # type: ignore[no-any-return]

    return Made(f"`{template}` with `h(x)` for `y`", compute, like=like)


KEYWORDS = {"": "", ", key=k": "k", ", reverse=r": "r", ", key=k, reverse=r": "kr", ", default=d": "d"}

rewrite(
    "plain-argument",
    ("list(g)", "l"),
    *(
        (f"f(list(e){more})", f"f(e{more})", [consumer("f"), in_step("f", "e", *names)])
        for more, names in KEYWORDS.items()
    ),
    ("f(reversed(s))", "f(s[::-1])", [consumer("f"), of_kind("str list", "s")]),
    ("f(map(h, e))", "f(mapped)", [consumer("f")]),
    ("f(filter(h, e))", "f(kept)", [consumer("f")]),
    ("f(m)", "f(lazy)", [consumer("f"), in_step("f", "m")]),
    made={
        "l": _turned(ast.GeneratorExp, ast.ListComp, "g"),
        "lazy": _turned(ast.ListComp, ast.GeneratorExp, "m"),
        "mapped": _generated("(y for x in e)", like="map(h, e)"),
        "kept": _generated("(x for x in e if y)", like="filter(h, e)"),
    },
    because="the same elements come in the same order, whether in a list first or one by one",
    fires=(
        "s: str; xs: list[int]",
        "return [''.join([c for c in s if c != 'a']), list(map(ord, s)), list(filter(lambda c: c != 'a', s)),"
        " list(reversed(xs)), sorted(list(x % 3 for x in xs))]",
    ),
    keeps=("s: str; xs: list[int]", "return [any([1 // x for x in xs]), sum(reversed(range(len(xs))))]"),
)
