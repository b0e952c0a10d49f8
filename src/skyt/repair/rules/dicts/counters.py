"""Counters: dicts that count, in one form."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.holders import Holder
from skyt.repair.rules.analysis.trees.syntax import load
from skyt.repair.rules.analysis.trees.trees import children, clone, same, walk
from skyt.repair.rules.dicts.defaults import VIEWS
from skyt.repair.rules.dicts.entries import counted, counting_loop
from skyt.repair.rules.names.inline import fits, head_of
from skyt.repair.rules.patterns.pieces import made, pieces
from skyt.repair.rules.registry import Place, statement


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
