"""Guards: special cases for few values of a parameter, split where they differ, dropped where the rest says
the same."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.evaluate import GiveUpError, Opaque, returned
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, number, stored_names
from skyt.repair.rules.analysis.types import is_int, is_str, kind
from skyt.repair.rules.patterns.conditions import of_kind, plain, text, values_shared
from skyt.repair.rules.patterns.flow import known_empty
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import first, made, pieces
from skyt.repair.rules.registry import Place, block

FEW = 4


def _values(test: ast.expr, scope: Scope) -> tuple[str, list[Any]] | None:
    """(parameter, the few values it can have when the test holds). Of `len(x) < 2`: no element, or one of
    which nothing is known."""
    p = first(test, "len(x) < k", "not x", "x == k", "x in k", "x < k")
    if p is None or not isinstance(p["x"], ast.Name):
        return None
    name, t, limit = p["x"].id, scope.type_of(p["x"]), int_value(p["k"]) if "k" in p else None
    if pieces("len(x) < k", test):
        if limit is None or not 1 <= limit <= 2 or kind(t) != "list":
            return None
        return name, [[Opaque() for _ in range(k)] for k in range(limit)]
    if pieces("not x", test):
        return (name, ["" if is_str(t) else []]) if is_str(t) or kind(t) == "list" else None
    if not is_int(t):
        return None
    if pieces("x in k", test):
        values = [int_value(e) for e in p["k"].elts] if isinstance(p["k"], ast.Tuple) else [None]
        return (name, values) if None not in values and len(values) <= FEW else None
    low = limit if pieces("x == k", test) else scope.interval(p["x"])[0]
    if limit is None or low is None or not (low == limit or limit - FEW <= low < limit):
        return None
    return name, [limit] if pieces("x == k", test) else list(range(low, limit))


def _parameter(name: str, body: list[ast.stmt], index: int, place: Place) -> bool:
    """Whether the name still holds what the caller passed."""
    info = place.info
    if name not in info.arguments or body is not info.node.body:
        return False
    return not any(name in stored_names(s) for s in body[:index])


@block(
    ast.If,
    needs="a parameter that can have only few values here (type int with a bound, or an empty str or list)",
    sound="the rest of the function, evaluated for each of these values, returns the same; a case for each "
    "value has that value for the parameter",
    fires=(
        "n: int >= 0",
        "if n == 1:\n return 1\nif n < 4:\n return n\nr = 1\nfor i in range(n):\n r = r * 2 - 1\nreturn r",
    ),
    keeps=("n: int", "if n == 1:\n return 5\nif n < 3:\n return n\nreturn 1 + n - n"),
)
def few_values(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if n == 1: return 1` goes when the rest of the function returns 1 for n = 1; with `n >= 0`,
    `if n < 2: return n` is `if n == 0: return 0` and `if n == 1: return 1`."""
    for i, s in enumerate(body):
        p, scope = pieces("if c: return e", s), place.before(i)
        found = _values(p["c"], scope) if p is not None else None
        if p is None or found is None:
            continue
        name, values = found
        rest = body[i + 1 :] if _parameter(name, body, i, place) else []
        if rest and all(_agree(p["e"], rest, name, v, place.scope) for v in values):
            return [*body[:i], *rest]
        if isinstance(p["e"], ast.Name) and p["e"].id == name and is_int(scope.type_of(p["e"])):
            cases = [made("if n == k: return k", n=name, k=number(v)) for v in values]
            return [*body[:i], *(case for block in cases for case in block), *body[i + 1 :]]
    return None


def _same_result(a: list[ast.stmt], b: list[ast.stmt], variables: dict[str, Any], scope: Scope) -> bool:
    try:
        first, second = returned(a, variables), returned(b, variables)
    except GiveUpError:
        return False
    one, other = first.value, second.value
    if type(one) is not type(other):
        return False
    if type(one) in (list, dict):
        return ((first.new and second.new) or scope.values_shared) and repr(one) == repr(other)
    return type(one) in (int, bool, str, type(None)) and bool(one == other)


def _agree(value: ast.expr, rest: list[ast.stmt], name: str, argument: Any, scope: Scope) -> bool:
    return _same_result([ast.Return(value=value)], rest, {name: argument}, scope)


rewrite(
    "return-empty",
    ("return x", "return ''", [text("x")]),
    ("return x", "return []", [of_kind("list", "x"), values_shared]),
    needs=[plain("x"), known_empty("x")],
    because="an empty str or list has the value of the literal",
    fires=("xs: list[int]", "if xs:\n return [xs[0]]\nreturn xs"),
    keeps=("xs: list[int]", "if len(xs) > 1:\n return [xs[0]]\nreturn xs"),
)
