"""Choices: the best key of a dict, the first of a sorted list."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value, load, read_names
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.registry import expression

EXTREMES = frozenset({"min", "max"})
PLAIN = frozenset({"int", "str", "char"})


def _dict(node: ast.expr, scope: Scope, view: str) -> ast.expr | None:
    """The dict under a plain name or attribute of one, of which this is the view (`keys`: also itself)."""
    called = isinstance(node, ast.Call) and not (node.args or node.keywords)
    if called and isinstance(node.func, ast.Attribute) and node.func.attr == view:  # type: ignore[attr-defined]
        node = node.func.value  # type: ignore[attr-defined]
    elif view != "keys":
        return None
    named = node.value if isinstance(node, ast.Attribute) else node
    return node if isinstance(named, ast.Name) and kind(scope.type_of(node)) == "dict" else None


def _key(node: ast.Call) -> ast.expr | None:
    keys = [k.value for k in node.keywords if k.arg == "key"]
    return keys[0] if len(keys) == 1 else None


def _fresh(node: ast.AST, scope: Scope) -> str:
    taken = scope.program.bound | read_names(scope.program.tree)
    taken |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
    taken |= {n.arg for n in walk(node) if isinstance(n, ast.arg)}
    return next(f"x{i}" for i in range(10_000) if f"x{i}" not in taken)


def _function(name: str, value: ast.expr) -> ast.Lambda:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=name)],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
        vararg=None,
        kwarg=None,
    )
    return ast.Lambda(args=arguments, body=value)


@expression(
    ast.Subscript,
    needs="a dict under a plain name or attribute; a key function without effects that looks at key and "
    "entry",
    sound="keys come in the order of the items, and are compared by the same values",
    fires=(
        "s: str",
        (
            "def f(s):\n d = {x: ord(x) % 3 for x in s + 'a'}\n"
            " return max(d.items(), key=lambda p: (p[1], p[0]))[0]"
        ),
    ),
    keeps=(
        "s: str",
        "def f(s):\n d = {x: ord(x) % 3 for x in s + 'a'}\n return max(d.items(), key=lambda p: p[::-1])[0]",
    ),
)
def key_of_best_item(node: ast.Subscript, scope: Scope, boolean: bool) -> ast.expr | None:
    """`max(d.items(), key=lambda p: p[1])[0]` is `max(d, key=lambda k: d[k])`."""
    made = node.value
    if (
        int_value(node.slice) != 0
        or not isinstance(made, ast.Call)
        or scope.builtin(made.func) not in EXTREMES
    ):
        return None
    if len(made.args) != 1 or [k.arg for k in made.keywords] != ["key"]:
        return None
    owner, key = _dict(made.args[0], scope, "items"), _key(made)
    if owner is None or not isinstance(key, ast.Lambda) or not scope.effects(made).pure:
        return None
    a = key.args
    if len(a.args) != 1:
        return None
    name = _fresh(node, scope)
    change = _Parts(a.args[0].arg, load(name), ast.Subscript(value=owner, slice=load(name), ctx=ast.Load()))
    body = change.visit(clone(key.body))
    if any(isinstance(n, ast.Name) and n.id == a.args[0].arg for n in walk(body)):
        return None
    arguments = [ast.keyword(arg="key", value=_function(name, body))]
    return ast.Call(func=made.func, args=[clone(owner)], keywords=arguments)


class _Parts(ast.NodeTransformer):
    """Puts key and entry in the place of the parts of an item."""

    def __init__(self, item: str, key: ast.expr, entry: ast.expr) -> None:
        self.item, self.parts = item, {0: key, 1: entry}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        part = self.parts.get(int_value(node.slice))  # type: ignore[arg-type]
        if part is not None and isinstance(node.value, ast.Name) and node.value.id == self.item:
            return clone(part)
        return self.generic_visit(node)


ORDERED = (
    ast.Tuple,
    ast.Name,
    ast.Subscript,
    ast.Constant,
    ast.UnaryOp,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
)


def _special(name: str, assigned: dict[str, list[ast.expr | None]]) -> bool:
    """Whether a dict may be of another class than `dict`: types do not tell them apart."""
    return not all(isinstance(v, ast.Dict | ast.DictComp) for v in assigned.get(name, [None]))
