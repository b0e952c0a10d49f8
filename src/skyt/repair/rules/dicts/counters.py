"""Counters: dicts that count, in one form."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.holders import Holder
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value, load, number
from skyt.repair.rules.analysis.trees.trees import children, clone, same, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, is_int
from skyt.repair.rules.dicts.defaults import VIEWS
from skyt.repair.rules.dicts.entries import counted, counting_loop
from skyt.repair.rules.dicts.grouping import plain_dict, unseen
from skyt.repair.rules.names.inline import fits, head_of
from skyt.repair.rules.patterns.pieces import first, made, pieces, value
from skyt.repair.rules.registry import Place, block, statement


@block(
    ast.If,
    ast.Expr,
    needs="a dict; a key without effects; an integer constant as first value; what is added reads nothing of "
    "the dict, and cannot raise where the dict outlives the function",
    sound="`get` gives the value under the key, or the default that would have been stored there first",
    fires=(
        "s: str",
        "d = {}\ne = {}\ng = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + 1\n else:\n  d[c] = 1\n"
        " if c not in e:\n  e[c] = 5\n e[c] += 2\n if c in g:\n  g[c] = g[c] + len(s)\n else:\n"
        "  g[c] = len(s)\nreturn [d, e, g]",
    ),
    keeps=("s: str", "d = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + d[c]\n else:\n  d[c] = 1\nreturn d"),
)
def count_by_get(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if k in d: d[k] = d[k] + 1` `else: d[k] = 1` is `d[k] = d.get(k, 0) + 1`."""
    for i, s in enumerate(body):
        alone = first(s, "d.setdefault(k, v)", "if k not in d: d[k] = v")
        p = alone or first(s, "if k in d: found\nelse: d[k] = v", "if k not in d: d[k] = v\nelse: found")
        if p is None:
            continue
        scope = place.before(i)
        if not plain_dict(p["d"], scope) or not scope.effects(p["k"]).total:
            continue
        given = {"d": p["d"], "k": p["k"]}
        grown = body[i + 1 : i + 2] if alone else p["found"]
        added = _increment(grown[0], given, scope) if len(grown) == 1 else None
        if added is None or scope.type_of(p["k"]) not in IMMUTABLE:
            continue
        start = p["v"] if alone else _before(p["v"], added, scope)
        if start is None or int_value(start) is None:
            continue
        new = made("d[k] = d.get(k, v) + e", **given, v=start, e=added)
        if int_value(added) is not None or unseen(added, p["d"], p["k"], place, i, new[0].value):  # type: ignore[attr-defined]
            return [*body[:i], *new, *body[i + 2 if alone else i + 1 :]]
    return None


def _before(first: ast.expr, added: ast.expr, scope: Scope) -> ast.expr | None:
    """What an entry would have been, had something been added to give its first value."""
    a, b = int_value(first), int_value(added)
    if a is not None and b is not None:
        return number(a - b)
    return number(0) if same(first, added) and scope.type_of(added) == "int" else None


def _increment(s: ast.stmt, given: dict[str, ast.expr], scope: Scope) -> ast.expr | None:
    """What is added to an entry: `e` of `d[k] = d[k] + e`, or of `d[k] = e + d[k]` with integers."""
    if p := pieces("d[k] = d[k] + e", s, **given):
        return p["e"]  # type: ignore[no-any-return]
    p = pieces("d[k] = e + d[k]", s, **given)
    whole = p is not None and is_int(scope.type_of(p["e"])) and is_int(scope.type_of(value("d[k]", **given)))
    return p["e"] if p is not None and whole else None


@statement(
    ast.Return,
    ast.Assign,
    ast.For,
    ast.If,
    needs="a `collections.Counter` over a container that is not a dict, evaluated first in its statement and "
    "used for membership, length, truth and iteration only, or as a `dict`",
    sound="a counter adds one for each element in turn, starting from nothing",
    fires=(
        "s: str",
        "import collections\ndef f(s):\n"
        " d = {k: n for k, n in collections.Counter(s).items() if n > 1}\n"
        " e = dict(collections.Counter(c.lower() for c in s))\n"
        " return [d, e, len(collections.Counter(s))]",
    ),
    keeps=("s: str", "import collections\ndef f(s):\n return collections.Counter(s)['a']"),
)
def counter_to_loop(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`return dict(Counter(e))` is a loop over e that counts in a dict."""
    scope = place.scope
    calls = [n for h in head_of(s) or () for n in walk(h) if isinstance(n, ast.Call) and counted(n, scope)]
    if len(calls) != 1:
        return None
    source, counts = counted(calls[0], scope), place.context.name("d")
    last = _Replaced(calls[0], counts).visit(clone(s))
    if source is None or not fits(last, counts, calls[0], place.before(i)) or not _used_as_dict(last, counts):
        return None
    loop = counting_loop(counts, source, place.context.name("c"))
    return [*made("d = {}", d=counts), *loop, _without_copy(last, counts)]


class _Replaced(ast.NodeTransformer):
    def __init__(self, made: ast.AST, name: str) -> None:
        self.made, self.name = made, name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return load(self.name) if same(node, self.made) else self.generic_visit(node)


def _used_as_dict(s: ast.stmt, name: str) -> bool:
    """Whether the only use of a name is one that a Counter and a dict with the same entries answer alike."""
    parents = {id(c): p for p in walk(s) for c in children(p)}
    uses = [n for n in walk(s) if isinstance(n, ast.Name) and n.id == name]
    if len(uses) != 1:
        return False
    use: ast.expr = uses[0]
    outer = parents.get(id(use))
    if isinstance(outer, ast.Attribute) and outer.attr in VIEWS:
        view = parents.get(id(outer))
        if not isinstance(view, ast.Call) or view.func is not outer or view.args:
            return False
        use = view
    holder = Holder(s, None, [], [], parents)
    return holder.is_read(use) or _is_copy(outer, name)


def _is_copy(node: ast.AST | None, name: str) -> bool:
    return pieces("dict(d)", node, d=name) is not None


def _without_copy(s: ast.stmt, name: str) -> ast.stmt:
    """`return dict(d)` as `return d`: nobody else has d."""
    if isinstance(s, ast.Return | ast.Assign) and _is_copy(s.value, name):
        s.value = load(name)
    return s
