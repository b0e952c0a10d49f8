"""Sequences: one form for copies, slices, joins and concatenations."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.values.types import is_str
from skyt.repair.rules.patterns.conditions import at_least, constant, of_kind, text
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset"})


@expression(
    ast.Call,
    needs="a consumer that uses up its argument at once",
    sound="the same elements come in the same order, whether in a list first or one by one",
    fires=("s: str", "return ''.join([c for c in s if c != 'a'])"),
    keeps=("xs: list[int]", "return any([1 // x for x in xs])"),
)
def generator_argument(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`"".join([…])` is `"".join(…)`; `list(x for …)` is a list comprehension."""
    if len(node.args) != 1 or node.keywords:
        return None
    only = node.args[0]
    if isinstance(node.func, ast.Name) and node.func.id == "list" and isinstance(only, ast.GeneratorExp):
        return ast.ListComp(elt=only.elt, generators=only.generators)
    lazily = (
        ast.GeneratorExp(elt=only.elt, generators=only.generators) if isinstance(only, ast.ListComp) else None
    )
    joins = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
    joins = joins and is_str(scope.type_of(node.func.value))  # type: ignore[attr-defined]
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if not isinstance(only, ast.ListComp):
        return None
    lazily = ast.GeneratorExp(elt=only.elt, generators=only.generators)
    if joins or (name in CONSUMERS and _in_step(node, only, scope)):
        return ast.Call(func=node.func, args=[lazily], keywords=[])
    if name in {"any", "all"} and scope.effects(only).total:
        return ast.Call(func=node.func, args=[lazily], keywords=[])
    return None


def _in_step(node: ast.Call, made: ast.ListComp | ast.GeneratorExp, scope: Scope) -> bool:
    """Whether it cannot be told if a consumer takes the elements one by one or all at once: it makes a list
    first anyway, or it cannot fail on them, or making them cannot."""
    name, t = scope.builtin(node.func), scope.type_of(made.elt)
    if name in {"sorted", "list", "tuple"} or scope.effects(made).total:
        return True
    return t in {"int", "bool"} or (name in {"set", "frozenset", "max", "min"} and is_str(t))


rewrite(
    "copy-of-list",
    ("x[:]", "list(x)"),
    ("x.copy()", "list(x)"),
    needs=[of_kind("list", "x")],
    because="`x[:]`, `x.copy()` and `list(x)` all make a new list of the same elements",
    fires=("xs: list[int]", "ys = xs[:]\nys.append(1)\nreturn ys"),
    keeps=("xs: list[int]", "ys = xs[1:]\nys.append(1)\nreturn ys"),
)
rewrite(
    "whole-text",
    ("x[:]", "x"),
    ("''.join(x)", "x"),
    needs=[text("x")],
    because="a str from its start to its end, or its characters put together, is the str",
    fires=("s: str", "return s[:]"),
    keeps=("xs: list[str]", "return ''.join(xs)"),
)
rewrite(
    "plain-slice",
    ("x[0:b]", "x[:b]"),
    ("x[a:len(x)]", "x[a:]"),
    ("x[:len(x)]", "x[:]"),
    ("x[0:]", "x[:]"),
    ("x[a:b:1]", "x[a:b]"),
    ("x[a::1]", "x[a:]"),
    ("x[:b:1]", "x[:b]"),
    needs=[of_kind("str list", "x")],
    because="a slice starts at 0 and ends at the length unless it says otherwise",
    fires=("s: str; n: int", "return s[n:len(s)]"),
    keeps=("xs: list[int]", "g = [xs, xs]\nreturn g.pop()[:len(g.pop())]"),
)
rewrite(
    "slice-from-end",
    ("x[len(x) - k:]", "x[-k:]"),
    ("x[:len(x) - k]", "x[:-k]"),
    needs=[of_kind("str list", "x"), constant("k"), at_least(0, "len(x) - k")],
    because="an index below 0 counts from the end",
    fires=("s: str", "if len(s) < 5:\n return s\nreturn s[len(s) - 4:]"),
    keeps=("s: str", "return s[len(s) - 4:]"),
)
rewrite(
    "concatenate-left",
    ("a + (b + c)", "a + b + c"),
    needs=[text("a", "b", "c")],
    because="concatenation is associative",
    fires=("s: str", "return s + ('a' + s)"),
    keeps=("x: float; y: float", "return x + (y + 0.1)"),
)
