"""Comprehensions that look up each element by its index or key: the element has a name instead."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import count_reads, int_value, load, number, read_names, store
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.containers.consumers import consumes
from skyt.repair.rules.patterns.pieces import first, pieces, value
from skyt.repair.rules.registry import expression

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@expression(
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Call,
    needs="a comprehension without effects that is used up at once, over the indices of a str or list (used "
    "only to read the elements) or over the keys or items of a dict, under a plain name or attribute",
    sound="the elements come in the order of their indices, and an item is a key with the entry under it",
    fires=(
        "s: str; xs: list[int]; k: int >= 0",
        "d = {x: ord(x) for x in s}\n"
        "return [max([d[c] for c in d], default=0), sum(d[c] for c in d if d[c] > 60),"
        " sum(xs[i] * xs[i] for i in range(k, len(xs)))]",
    ),
    keeps=(
        "xs: list[int]; k: int",
        "return [xs[i] for i in range(k, len(xs))] + [i + xs[i] for i in range(len(xs))]",
    ),
)
def element_in_comprehension(node: Comprehension | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[… s[i] … for i in range(len(s))]` is `[… x … for x in s]`; `[… d[k] … for k in d]` is
    `[… v … for k, v in d.items()]`."""
    made = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
    if not isinstance(made, Comprehension) or not scope.effects(made).pure:
        return None
    if isinstance(node, ast.Call) and (node.keywords or not consumes(node.func, scope)):
        return None
    bound = [n.id for n in walk(made) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    if len(bound) != len(set(bound)) or any(isinstance(n, ast.Lambda) for n in walk(made)):
        return None
    for j, g in enumerate(made.generators):
        found = _by_index(g, made, scope) or _by_key(g, made, scope)
        if found is None or set(bound) & read_names(found[0].value):
            continue
        lookup, name, target, source = found
        results = [made.key, made.value] if isinstance(made, ast.DictComp) else [made.elt]
        inside = [*g.ifs, *made.generators[j + 1 :], *results]
        uses = sum(isinstance(n, ast.Subscript) and same(n, lookup) for n in walk(inside))
        if not uses or (isinstance(target, ast.Name) and uses != count_reads(inside, lookup.slice.id)):  # type: ignore[attr-defined]
            continue
        new = Lookup(lookup, name).visit(clone(made))
        new.generators[j].target, new.generators[j].iter = target, source
        return ast.Call(func=node.func, args=[new], keywords=[]) if isinstance(node, ast.Call) else new
    return None


Found = tuple[ast.Subscript, str, ast.expr, ast.expr]  # what is looked up, its name, the new `for … in …`


def _by_index(g: ast.comprehension, made: Comprehension, scope: Scope) -> Found | None:
    if not (isinstance(g.target, ast.Name) and isinstance(g.iter, ast.Call)):
        return None
    found, name = elements_of(g.iter, scope), scope.fresh(made)
    return (
        (value("s[i]", s=found[0], i=g.target.id), name, store(name), found[1]) if found is not None else None
    )


def _by_key(g: ast.comprehension, made: Comprehension, scope: Scope) -> Found | None:
    p = pieces("d.items()", g.iter)
    owner, pair = (p["d"], g.target) if p is not None else (g.iter, _both(g.target, store(scope.fresh(made))))
    named = owner.value if isinstance(owner, ast.Attribute) else owner
    if not isinstance(named, ast.Name) or kind(scope.type_of(owner)) != "dict":
        return None
    if not isinstance(pair, ast.Tuple) or not all(isinstance(n, ast.Name) for n in pair.elts):
        return None
    key, name = (n.id for n in pair.elts)  # type: ignore[attr-defined]
    return value("d[k]", d=owner, k=key), name, pair, value("d.items()", d=owner)


def _both(key: ast.expr, name: ast.expr) -> ast.expr:
    return ast.Tuple(elts=[key, name], ctx=ast.Store())


def elements_of(node: ast.Call, scope: Scope) -> tuple[ast.Name, ast.expr] | None:
    """(s, the elements of the str or list s at the indices of a range): `s[k:]` for `range(k, len(s))`, and
    `s[::-1]` for `range(len(s) - 1, -1, -1)`."""
    back = pieces("range(len(s) - 1, -1, -1)", node)
    p = back or first(node, "range(len(s))", "range(a, len(s))")
    t = scope.type_of(p["s"]) if p is not None else None
    if p is None or not isinstance(p["s"], ast.Name) or not (is_str(t) or kind(t) == "list"):
        return None
    if back or int_value(p.get("a", number(0))) == 0:
        return p["s"], value("s[::-1]" if back else "s", **p)
    low = scope.interval(p["a"])[0]
    if low is None or low < 0 or not scope.effects(p["a"]).total:
        return None
    return p["s"], value("s[a:]", **p)


class Lookup(ast.NodeTransformer):
    def __init__(self, lookup: ast.expr, name: str) -> None:
        self.lookup, self.name = lookup, name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return load(self.name) if same(node, self.lookup) else self.generic_visit(node)
