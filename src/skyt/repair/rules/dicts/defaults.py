"""Dicts that make their missing entries themselves (`defaultdict`, `Counter`), as plain dicts."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.functions import READ
from skyt.repair.rules.analysis.holders import Holder, holders
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import same, text, walk
from skyt.repair.rules.dicts.entries import (
    INSERT,
    STARTS,
    counted,
    counting_loop,
    get_entry,
    stable_key,
    start_of_default,
)
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.patterns.pieces import first, made, pieces
from skyt.repair.rules.registry import module

VIEWS = frozenset({"items", "keys", "values"})


def _makes(node: ast.expr, scope: Scope) -> bool:
    counter = first(node, "collections.Counter()", "collections.Counter(e)")
    return counter is not None or start_of_default(node, scope) is not None


@module(
    needs="a local or private attribute that is always a `defaultdict` or `Counter`, used only by its "
    "entries, membership, length, truth and iteration; for reading an entry of a `defaultdict` that may be "
    "missing: 0 as default, and nothing that could tell whether the entry is there",
    sound="a missing entry is put in where the `defaultdict` would put it in; what a `Counter` gives for a "
    "missing entry is what `get` gives",
    fires=(
        "s: str",
        "import collections\ndef f(s):\n d = collections.defaultdict(int)\n t = 0\n"
        " g = collections.defaultdict(list)\n e = collections.Counter()\n"
        " n = collections.Counter(s)\n seen = collections.defaultdict(lambda: 0)\n for c in s:\n"
        "  d[c] += 2\n  g[c.lower()].append(c)\n  e[c] += n['a'] + e['b']\n  t += seen[c]\n"
        "  seen[c] = t\n best = [k for k in sorted(d) if d[k] > 2]\n"
        " return [dict(d), {k: len(v) for k, v in g.items()}, dict(e), t, best, max(n.values())]",
    ),
    keeps=(
        "s: str",
        "import collections\ndef f(s):\n d = collections.defaultdict(int)\n"
        " e = collections.Counter(s)\n for c in s:\n  d[c] += d['a'] + 1\n return [dict(d), e]",
    ),
)
def default_to_get(context: Context) -> bool:
    """`d[k] += 1` on a `Counter` is `d[k] = d.get(k, 0) + 1` on a dict; on a `defaultdict` the entry is made
    first."""
    for holder in holders(context, _makes):
        starts = [_start(s.value, holder.scope(s, context), holder) for s in holder.made]
        if any(s is None or not same(s[0], starts[0][0]) or s[1] != starts[0][1] for s in starts):  # type: ignore[index]
            continue
        start, counter = starts[0]  # type: ignore[misc]
        change = _Plain(holder, context, start, counter)
        if not change.allowed():
            continue
        before = text(holder.made)
        change.visit(holder.where)
        context.record("default-to-get", before, text(change.made))
        return True
    return False


def _start(value: ast.expr, scope: Scope, holder: Holder) -> tuple[ast.expr, bool] | None:
    """(what a missing entry counts as, whether the container is a Counter)."""
    start = start_of_default(value, scope)
    if start is not None:
        return start, False
    source = counted(value, scope)
    empty = pieces("collections.Counter()", value) is not None
    mine = source is not None and holder.is_local and not _mentions(source, holder)
    return (STARTS["int"], True) if empty or mine else None


def _mentions(node: ast.AST, holder: Holder) -> bool:
    return any(n in holder.uses for n in walk(node))


class _Plain(ast.NodeTransformer):
    """Puts a dict in the place of a `defaultdict` or `Counter`."""

    def __init__(self, holder: Holder, context: Context, start: ast.expr, counter: bool) -> None:
        self.holder, self.context, self.start, self.counter = holder, context, start, counter
        self.made: list[ast.stmt] = []
        self.seen = False  # whether some use could tell an entry of 0 from one that is not there
        self.reads: list[ast.Subscript] = []  # entries that may be missing

    def allowed(self) -> bool:
        if not all(self._allowed(u) for u in self.holder.uses):
            return False
        if self.reads and not self.counter:
            return int_value(self.start) == 0 and not self.seen
        return True

    def _allowed(self, use: ast.expr) -> bool:
        done, parent = self.holder.use(use), self.holder.parent(use)
        if isinstance(parent, ast.Subscript) and parent.value is use:
            return self._entry(parent)
        made: Any = self.holder.parent(parent) if isinstance(parent, ast.Attribute) else None
        if isinstance(parent, ast.Attribute) and parent.attr == "get":
            zero = done == ".get" and len(made.args) == 2 and int_value(made.args[1]) == 0
            self.seen = self.seen or not zero
            return done == ".get" or isinstance(made, ast.keyword)
        self.seen = True
        if done[1:] in VIEWS:
            return not made.args and not made.keywords and self.holder.use(made) in READ
        return done in READ or self._copied(parent, use)

    def _copied(self, parent: ast.AST | None, use: ast.expr) -> bool:
        return pieces("dict(d)", parent, d=use) is not None

    def _entry(self, entry: ast.Subscript) -> bool:
        scope, outer = self.holder.scope(entry, self.context), self.holder.parent(entry)
        if isinstance(entry.slice, ast.Slice) or isinstance(entry.ctx, ast.Del):
            return False
        if isinstance(outer, ast.AugAssign) and outer.target is entry:
            stable = stable_key(entry.slice, scope) and not _mentions(entry.slice, self.holder)
            kept = not disturbs(scope.effects(outer.value), scope.effects(entry.slice), scope)
            return stable and (kept or not self.counter)
        if isinstance(entry.ctx, ast.Store):
            return isinstance(outer, ast.Assign)
        if self._grows(entry):
            written = Effects(heap_writes={entry.value.id if isinstance(entry.value, ast.Name) else "*"})
            stable = stable_key(entry.slice, scope) and not _mentions(entry.slice, self.holder)
            return stable and not disturbs(written, scope.effects(entry.slice), scope)
        if not self._present(entry):
            self.reads.append(entry)
        return True

    def _grows(self, entry: ast.Subscript) -> bool:
        """`d[k].append(x)` as a statement."""
        method = self.holder.parent(entry)
        outer = self.holder.parent(method) if isinstance(method, ast.Attribute) else None
        called = isinstance(outer, ast.Call) and outer.func is method
        return not self.counter and called and isinstance(self.holder.parent(outer), ast.Expr)  # type: ignore[arg-type]

    def _present(self, entry: ast.Subscript) -> bool:
        """Whether the key comes from going through the container itself, from which nothing is ever taken."""
        if not isinstance(entry.slice, ast.Name) or len(self.holder.made) != 1:
            return False
        name = entry.slice.id
        here = self.holder.parent(entry)
        while here is not None:
            if isinstance(here, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                bound = [g for g in here.generators if _binds_name(g.target, name)]
                if bound:
                    plain = len(bound) == 1 and isinstance(bound[0].target, ast.Name)
                    outside = not any(n is entry for n in walk(bound[0].iter))
                    return plain and outside and same(bound[0].iter, entry.value)
            if isinstance(here, ast.Lambda) and [a.arg for a in here.args.args] == [name]:
                key = self.holder.parent(here)
                outer = self.holder.parent(key) if isinstance(key, ast.keyword) and key.arg == "key" else None
                named = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name)
                one = named and outer.func.id in {"sorted", "min", "max"} and len(outer.args) == 1  # type: ignore[union-attr]
                return one and same(outer.args[0], entry.value)  # type: ignore[union-attr]
            if isinstance(here, ast.Lambda | ast.FunctionDef):
                return False
            here = self.holder.parent(here)
        return False

    def _first(self, entry: ast.Subscript) -> list[ast.stmt]:
        """The entry as the container would have made it."""
        return made(INSERT, d=entry.value, k=entry.slice, v=self.start)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        if node not in self.holder.made:
            return self.generic_visit(node)
        parts: list[ast.stmt] = [
            ast.Assign(targets=node.targets, value=ast.Dict(keys=[], values=[]), lineno=0)
        ]
        source = counted(node.value, self.holder.scope(node, self.context))
        if source is not None and isinstance(node.targets[0], ast.Name):
            parts = counting_loop(node.targets[0], source, self.context.name("c"))
        self.made += parts
        return parts

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        entry = node.target
        mine = isinstance(entry, ast.Subscript) and entry.value in self.holder.uses
        self.generic_visit(node)
        if not mine or not isinstance(entry, ast.Subscript):
            return node
        if not self.counter:
            return [*self._first(entry), node]
        value = ast.BinOp(left=get_entry(entry, self.start), op=node.op, right=node.value)
        return ast.Assign(targets=[entry], value=value, lineno=0)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        made = node.value
        entry = (
            made.func.value if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else None
        )
        mine = isinstance(entry, ast.Subscript) and entry.value in self.holder.uses and self._grows(entry)
        self.generic_visit(node)
        return [*self._first(entry), node] if mine and isinstance(entry, ast.Subscript) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        missing = node in self.reads
        self.generic_visit(node)
        return get_entry(node, self.start) if missing else node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        made = node.value
        only = made.args[0] if isinstance(made, ast.Call) and len(made.args) == 1 else None
        if self.holder.is_local and only in self.holder.uses and self._copied(made, only):
            node.value = only
        return node


def _binds_name(target: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(target))
