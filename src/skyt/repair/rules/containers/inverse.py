"""Inverse tables: whether a bracket closes the last one can be asked with either table."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import compare, conjuncts, load
from skyt.repair.rules.analysis.trees.trees import same, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.containers.tables import constant_table
from skyt.repair.rules.registry import expression


@expression(
    ast.Compare,
    needs="a constant table of strings without repeated values; a list that the function owns and into "
    "which it only "
    "puts keys of the table; a right side known to be one of the values",
    sound="for a one-to-one table, `table[key] == value` says the same as `key == inverse[value]`",
    fires=(
        "s: str",
        (
            "def f(s):\n k = []\n for c in s:\n  if c in ('a', 'b'):\n   k.append(c)\n"
            "  elif c in ('A', 'B'):\n   if not k or {'a': 'A', 'b': 'B'}[k.pop()] != c:\n"
            "    return False\n return not k"
        ),
    ),
    keeps=(
        "s: str",
        (
            "def f(s):\n k = []\n for c in s:\n  if c in ('a', 'b', 'ß'):\n   k.append(c)\n"
            "  elif c in ('A', 'B'):\n   if not k or {'a': 'A', 'b': 'B'}[k.pop()] != c:\n"
            "    return False\n return not k"
        ),
    ),
)
def invert_table(node: ast.Compare, scope: Scope, boolean: bool) -> ast.expr | None:
    """`{"(": ")"}[stack.pop()] != c` is `stack.pop() != {")": "("}[c]`."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return None
    sides = [node.left, node.comparators[0]]
    for i, lookup in enumerate(sides):
        other = sides[1 - i]
        if not (isinstance(lookup, ast.Subscript) and isinstance(lookup.value, ast.Dict)):
            continue
        name = _popped(lookup.slice)
        table = lookup.value
        if name is None or not isinstance(other, ast.Name) or not is_str(scope.type_of(other)):
            continue
        pairs = _one_to_one(table)
        if pairs is None or not _known_member(other, set(pairs.values()), scope):
            continue
        if name not in scope.owned or not _holds_only(name, set(pairs), scope):
            continue
        keys: list[ast.expr | None] = [ast.Constant(value=v) for v in sorted(pairs.values())]
        back = {v: k for k, v in pairs.items()}
        values: list[ast.expr] = [ast.Constant(value=back[v]) for v in sorted(back)]
        inverse = ast.Subscript(
            value=ast.Dict(keys=keys, values=values), slice=load(other.id), ctx=ast.Load()
        )
        return compare(lookup.slice, type(node.ops[0]), inverse)
    return None


def _popped(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop":
        owner = node.func.value
        return owner.id if isinstance(owner, ast.Name) and not node.args and not node.keywords else None
    return None


def _one_to_one(table: ast.Dict) -> dict[str, str] | None:
    if not constant_table(table):
        return None
    keys = [getattr(k, "value", None) for k in table.keys]
    values = [getattr(v, "value", None) for v in table.values]
    strings = all(isinstance(x, str) for x in (*keys, *values))
    if not strings or len(set(keys)) != len(keys) or len(set(values)) != len(values):
        return None
    return dict(zip(keys, values, strict=True))  # type: ignore[arg-type]


def _members(condition: ast.expr, subject: ast.expr) -> set[str] | None:
    """The strings of `subject in (…)`."""
    if not (isinstance(condition, ast.Compare) and len(condition.ops) == 1 and same(condition.left, subject)):
        return None
    table = condition.comparators[0]
    if not (isinstance(condition.ops[0], ast.In) and isinstance(table, ast.Tuple)):
        return None
    return {str(getattr(e, "value", "")) for e in table.elts}


def _known_member(node: ast.Name, allowed: set[str], scope: Scope) -> bool:
    found = [_members(c, node) for c in scope.known]
    return any(m is not None and m <= allowed for m in found)


def _holds_only(name: str, allowed: set[str], scope: Scope) -> bool:
    """Whether everything ever put into this list is one of the allowed strings."""
    info = scope.info
    if info is None or kind(scope.type_of(load(name))) != "list":
        return False
    if any(not (isinstance(v, ast.List) and not v.elts) for v in info.assigned.get(name, [None])):
        return False
    safe: set[int] = set()
    for n in walk(info.node):
        if not isinstance(n, ast.If):
            continue
        first = n.body[0]
        item = _appended(first, name)
        if item is not None and any((_members(c, item) or {""}) <= allowed for c in conjuncts(n.test)):
            safe.add(id(first))
    uses = [n for n in walk(info.node) if _changes(n, name)]
    return len(uses) == sum(_appended(n, name) is not None and id(n) in safe for n in walk(info.node))


def _appended(node: ast.AST, name: str) -> ast.Name | None:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1):
        return None
    function, item = node.value.func, node.value.args[0]
    appends = (
        isinstance(function, ast.Attribute) and function.attr == "append" and same(function.value, load(name))
    )
    return item if appends and isinstance(item, ast.Name) else None


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node puts something into the list (taking out does not matter)."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return same(node.value, load(name))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and same(node.func.value, load(name))
    ):
        return node.func.attr not in {"pop", "copy", "index", "count", "clear"}
    return False
