"""Constant containers: tables that are only looked up stand where they are used, in one order."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import compare, int_value, number
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.analysis.values.types import is_int, is_str
from skyt.repair.rules.containers.tables import MAKERS, constant_table
from skyt.repair.rules.patterns.conditions import immutable, of_kind, plain
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression


def elements(node: ast.expr, subject: ast.expr, scope: Scope) -> list[ast.expr] | None:
    """What a constant table holds for `in`."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return (
            list(node.elts)
            if all(isinstance(e, ast.Constant) or int_value(e) is not None for e in node.elts)
            else None
        )
    if isinstance(node, ast.Dict):
        return [k for k in node.keys if k is not None] if constant_table(node) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        single = scope.type_of(subject) == "char"
        return [ast.Constant(value=c) for c in node.value] if single else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
        if len(node.args) != 1 or node.keywords:
            return None
        inner = node.args[0]
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            return [ast.Constant(value=c) for c in inner.value]
        return elements(inner, subject, scope)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Dict)
    ):
        table = node.func.value
        if node.args or not constant_table(table):
            return None
        if node.func.attr == "values":
            return list(table.values)
        return [k for k in table.keys if k is not None] if node.func.attr == "keys" else None
    return None


@expression(
    ast.Compare,
    needs="a constant table; a subject of type str or int (for a string as table: a single character)",
    sound="membership depends on the elements alone, not on their order, number or container",
    fires=("s: str", "return s in {'b', 'a'}"),
    keeps=("s: str", "return s in 'ba'"),
)
def membership(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """`c in d.values()`, `c in "([{"`, `c in {...}` all become `c in (…)` with sorted elements."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
        return None
    t = scope.type_of(node.left)
    found = elements(node.comparators[0], node.left, scope)
    if found is None or not (is_str(t) or is_int(t)):
        return None
    wanted = str if is_str(t) else int
    values = {_value(e) for e in found}
    if not values or any(type(v) is not wanted for v in values):
        return None
    ordered = sorted(v for v in values if isinstance(v, int | str))
    new: list[ast.expr] = [number(v) if isinstance(v, int) else ast.Constant(value=v) for v in ordered]
    if len(new) == 1:
        return compare(node.left, ast.Eq if isinstance(node.ops[0], ast.In) else ast.NotEq, new[0])
    table = ast.Tuple(elts=new, ctx=ast.Load())
    return None if same(table, node.comparators[0]) else compare(node.left, type(node.ops[0]), table)


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else int_value(node)


rewrite(
    "keys-are-the-dict",
    ("a in d.keys()", "a in d"),
    ("a not in d.keys()", "a not in d"),
    needs=[of_kind("dict", "d")],
    because="searching the keys of a dict is searching the dict",
    fires=("n: int", "d = {n: 1}\nreturn 3 in d.keys()"),
    keeps=("n: int", "d = {n: 1}\nreturn 3 in d.values()"),
)
rewrite(
    "expand-get",
    ("return d.get(k, x)", "if k in d: return d[k]\nreturn x"),
    ("return d.get(k)", "if k in d: return d[k]\nreturn None"),
    needs=[of_kind("dict", "d"), plain("d"), immutable("k")],
    because="`get` gives the value exactly when the key is there, and the default otherwise",
    fires=("n: int", "d = {n + 1: 1}\nreturn d.get(n, 0)"),
    keeps=("n: int; xs: list[int]", "d = {n: 1}\nreturn d.get(n, xs[n])"),
)
