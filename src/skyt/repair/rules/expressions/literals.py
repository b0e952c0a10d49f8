"""Literals: one way to write empty containers, ranges, computed constants, and text with values in it."""

from __future__ import annotations

import ast
import re

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import call
from skyt.repair.rules.analysis.values.types import is_str
from skyt.repair.rules.patterns.making import folded
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression


@expression(
    ast.JoinedStr,
    ast.Call,
    needs="values of type str, int, float or bool, without format specifications",
    sound="formatting such a value without a specification gives what `str` gives",
    fires=("s: str; n: int", "return f'{s}:{n}' + '<{}{}>'.format(n, s)"),
    keeps=("s: str; n: int", "return f'{s:>5}{n!r}' + '{0}{}'.format(n)"),
)
def format_to_concatenation(node: ast.JoinedStr | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`f"{a}:{n}"` and `"{}:{}".format(a, n)` are `a + ":" + str(n)`."""
    parts = _pieces(node, scope)
    if not parts or not scope.builtin(ast.Name(id="str", ctx=ast.Load())):
        return None
    texts: list[ast.expr] = []
    for part in parts:
        t = scope.type_of(part)
        if t not in {"str", "char", "int", "float", "bool"}:
            return None
        texts.append(part if is_str(t) else call("str", part))
    result = texts[0]
    for part in texts[1:]:
        result = ast.BinOp(left=result, op=ast.Add(), right=part)
    return result


def _pieces(node: ast.JoinedStr | ast.Call, scope: Scope) -> list[ast.expr] | None:
    """The texts and values that are put one after the other, in order; None if there is more to it."""
    if isinstance(node, ast.JoinedStr):
        parts: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                if value.format_spec is not None or value.conversion not in (-1, ord("s")):
                    return None
                parts.append(value.value)
            else:
                parts.append(value)
        return parts
    function = node.func
    if not (
        isinstance(function, ast.Attribute)
        and function.attr == "format"
        and isinstance(function.value, ast.Constant)
        and isinstance(function.value.value, str)
        and not node.keywords
    ):
        return None
    if len(node.args) > 1 and not all(scope.effects(a).total for a in node.args):
        return None  # all are evaluated before the first is written
    pieces = re.split(r"(\{\})", function.value.value)
    if any("{" in p or "}" in p for p in pieces if p != "{}") or pieces.count("{}") != len(node.args):
        return None
    values = iter(node.args)
    return [next(values) if p == "{}" else ast.Constant(value=p) for p in pieces if p]


rewrite(
    "fold-call",
    *((f"{function}(c)", function[0]) for function in ("ord", "chr", "len")),
    made={function[0]: folded(f"{function}(c)") for function in ("ord", "chr", "len")},
    because="`ord`, `chr` and `len` of a constant are constants",
    fires=("n: int", "return ord('a') + len('abc') + n"),
    keeps=("n: int", "return ord('ab')"),
)
rewrite(
    "empty-literal",
    ("dict()", "{}"),
    ("list()", "[]"),
    ("tuple()", "()"),
    ("str()", "''"),
    ("int()", "0"),
    because="`dict()`, `list()`, `tuple()`, `str()` and `int()` give the empty value that the literal gives",
    fires=("n: int", "return [dict(), n]"),
    keeps=("xs: list[int]", "return list(xs)"),
)
rewrite(
    "plain-range",
    ("range(a, b, 1)", "range(a, b)"),
    ("range(0, b)", "range(b)"),
    because="a range starts at 0 and counts by 1 unless it says otherwise",
    fires=("n: int >= 0 <= 9", "return [i for i in range(0, n, 1)]"),
    keeps=("n: int >= 0 <= 9", "return [i for i in range(1, n)]"),
)
