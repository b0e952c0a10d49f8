"""Going through a dict: keys with their values as items, keys or values alone where only they are used."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import read_names
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.control.iteration import consumes
from skyt.repair.rules.control.loops import Lookup
from skyt.repair.rules.patterns.pieces import value
from skyt.repair.rules.registry import expression

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
LATE = (ast.Lambda, ast.FunctionDef, ast.ClassDef, ast.GeneratorExp)


def _source(node: ast.expr, scope: Scope) -> tuple[ast.expr, str] | None:
    """(dict, what of it is gone through: keys, values, items); the dict is a name or an attribute of one."""
    view = "keys"
    called = isinstance(node, ast.Call) and not (node.args or node.keywords)
    if called and isinstance(node.func, ast.Attribute):  # type: ignore[attr-defined]
        view, node = node.func.attr, node.func.value  # type: ignore[attr-defined]
    named = node.value if isinstance(node, ast.Attribute) else node
    if view not in {"keys", "values", "items"} or not isinstance(named, ast.Name):
        return None
    return (node, view) if kind(scope.type_of(node)) == "dict" else None


def _pair(target: ast.expr) -> tuple[str, str] | None:
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        k, v = target.elts
        if isinstance(k, ast.Name) and isinstance(v, ast.Name) and k.id != v.id:
            return k.id, v.id
    return None


def _lookups(where: Any, lookup: ast.expr) -> int:
    """How often an entry is read; 0 where a read may come later than it stands."""
    found = [n for n in walk(where) if isinstance(n, ast.Subscript) and same(n, lookup)]
    late = [n for n in walk(where) if isinstance(n, LATE)]
    if any(isinstance(n, ast.Subscript) and same(n, lookup) for outer in late for n in walk(outer)):
        return 0
    return len(found) if all(isinstance(n.ctx, ast.Load) for n in found) else 0


def _binds(where: Any, names: set[str]) -> bool:
    """Whether one of these names is bound anywhere inside, comprehensions included."""
    inside = (n for n in walk(where) if isinstance(n, ast.Name))
    return any(n.id in names and not isinstance(n.ctx, ast.Load) for n in inside)


def _both(key: str, value: str) -> ast.Tuple:
    names: list[ast.expr] = [ast.Name(id=n, ctx=ast.Store()) for n in (key, value)]
    return ast.Tuple(elts=names, ctx=ast.Store())


@expression(
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Call,
    needs="a dict under a plain name or attribute; a comprehension without effects, used up at once",
    sound="an item is a key with the entry under it",
    fires=(
        "s: str",
        "d = {x: ord(x) for x in s}\n"
        "return [max([d[c] for c in d], default=0), sum(d[c] for c in d if d[c] > 60)]",
    ),
    keeps=(
        "s: str",
        "d = {x: ord(x) for x in s}\ng = (d[x] for x in d)\nfor c in s:\n d[c] = 1\nreturn list(g)",
    ),
)
def items_in_comprehension(node: Comprehension | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[… d[k] … for k in d]` is `[… v … for k, v in d.items()]`."""
    made = used_up(node, scope)
    if made is None or not scope.effects(made).pure:
        return None
    for j, g in enumerate(made.generators):
        found = _source(g.iter, scope)
        if found is None or found[1] == "values":
            continue
        owner, view = found
        pair = _pair(g.target) if view == "items" else None
        key = pair[0] if pair else g.target.id if view == "keys" and isinstance(g.target, ast.Name) else None
        bound = [n for x in made.generators for n in walk(x.target) if isinstance(n, ast.Name)]
        if key is None or len({n.id for n in bound}) != len(bound):
            continue
        lookup = value("d[k]", d=owner, k=key)
        inside = [*g.ifs, *made.generators[j + 1 :], *results(made)]
        if not _lookups(inside, lookup) or _binds(inside, {key, *(pair or ()), *read_names(owner)}):
            continue
        name = pair[1] if pair else scope.fresh(made)
        new = Lookup(lookup, name).visit(clone(made))
        new.generators[j].target, new.generators[j].iter = _both(key, name), value("d.items()", d=owner)
        if isinstance(node, ast.Call):
            return ast.Call(func=node.func, args=[new], keywords=node.keywords)
        return new  # type: ignore[no-any-return]
    return None


def used_up(node: Comprehension | ast.Call, scope: Scope) -> Comprehension | None:
    if not isinstance(node, ast.Call):
        return node
    if len(node.args) != 1 or not isinstance(node.args[0], ast.GeneratorExp) or not consumes(node, scope):
        return None
    return node.args[0] if not node.keywords else None


def results(made: Comprehension) -> list[ast.expr]:
    return [made.key, made.value] if isinstance(made, ast.DictComp) else [made.elt]
