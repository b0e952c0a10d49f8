"""Dicts that make their missing entries themselves (`defaultdict`, `Counter`), as plain dicts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from skyt.repair.rules.analysis.effects import Effects, disturbs, root
from skyt.repair.rules.analysis.functions import READ
from skyt.repair.rules.analysis.holders import Holder, holders
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, same, text, walk
from skyt.repair.rules.analysis.vocabulary import VIEWS
from skyt.repair.rules.dicts.conditions import (
    INSERT,
    STARTS,
    counted,
    counting_loop,
    get_entry,
    stable_key,
    start_of_default,
)
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.patterns.template import first, made, pieces
from skyt.repair.rules.registry import module

BY_KEY = ("sorted(d, key=k)", "sorted(d, key=k, reverse=r)", "min(d, key=k)", "max(d, key=k)")


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
        self.missing = False  # whether an entry is read that may not be there
        self.new: dict[int, Callable[[Any], Any]] = {id(s): self._filled for s in holder.made}

    def visit(self, node: ast.AST) -> Any:
        change, node = self.new.get(id(node)), self.generic_visit(node)
        return change(node) if change is not None else node

    def _filled(self, node: ast.Assign) -> list[ast.stmt]:
        """The statements that make the dict."""
        source = counted(node.value, self.holder.scope(node, self.context))
        if source is not None and isinstance(node.targets[0], ast.Name):
            self.made += counting_loop(node.targets[0], source, self.context.name("c"))
        else:
            self.made += made("targets = {}", targets=node.targets[0])
        return self.made

    def allowed(self) -> bool:
        if not all(self._allowed(u) for u in self.holder.uses):
            return False
        return self.counter or not self.missing or (int_value(self.start) == 0 and not self.seen)

    def _allowed(self, use: ast.expr) -> bool:
        done, parent = self.holder.use(use), self.holder.parent(use)
        if isinstance(parent, ast.Subscript) and parent.value is use:
            return self._entry(parent)
        outer: Any = self.holder.parent(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and parent.attr == "get":
            zero = done == ".get" and len(outer.args) == 2 and int_value(outer.args[1]) == 0
            self.seen = self.seen or not zero
            return done == ".get" or isinstance(outer, ast.keyword)
        self.seen = True
        if done[1:] in VIEWS:
            return not outer.args and not outer.keywords and self.holder.use(outer) in READ
        if done == "dict" and isinstance(outer, ast.Return) and self.holder.is_local:
            self.new[id(parent)] = lambda copied: copied.args[0]
        return done in READ or done == "dict"

    def _entry(self, entry: ast.Subscript) -> bool:
        scope, outer, key = self.holder.scope(entry, self.context), self.holder.parent(entry), entry.slice
        stable = stable_key(key, scope) and not _mentions(key, self.holder)
        if isinstance(key, ast.Slice) or isinstance(entry.ctx, ast.Del):
            return False
        if isinstance(outer, ast.AugAssign) and outer.target is entry:
            kept = not disturbs(scope.effects(outer.value), scope.effects(key), scope)
            self.new[id(outer)] = self._added if self.counter else lambda s: [*self._first(entry), s]
            return stable and (kept or not self.counter)
        if isinstance(entry.ctx, ast.Store):
            return isinstance(outer, ast.Assign)
        grown = self._grown(entry)
        if grown is not None:
            self.new[id(grown)] = lambda s: [*self._first(entry), s]
            written = Effects(heap_writes={root(entry.value)})
            return stable and not disturbs(written, scope.effects(key), scope)
        if not self._present(entry):
            self.missing = True
            self.new[id(entry)] = lambda read: get_entry(read, self.start)
        return True

    def _added(self, s: ast.AugAssign) -> ast.stmt:
        value = ast.BinOp(left=get_entry(s.target, self.start), op=s.op, right=s.value)  # type: ignore[arg-type]
        return ast.Assign(targets=[s.target], value=value, lineno=0)

    def _grown(self, entry: ast.Subscript) -> ast.stmt | None:
        """`d[k].append(x)` as a statement."""
        if self.counter or not self.holder.use(entry).startswith("."):
            return None
        called = self.holder.parent(self.holder.parent(entry))  # type: ignore[arg-type]
        outer = self.holder.parent(called)  # type: ignore[arg-type]
        return outer if isinstance(outer, ast.Expr) else None

    def _present(self, entry: ast.Subscript) -> bool:
        """Whether the key comes from going through the container itself, from which nothing is ever taken."""
        if not isinstance(entry.slice, ast.Name) or len(self.holder.made) != 1:
            return False
        name, here = entry.slice.id, self.holder.parent(entry)
        while here is not None and not isinstance(here, ast.FunctionDef):
            if isinstance(here, COMPREHENSIONS):
                bound = [g for g in here.generators if name in stored_names(g.target)]
                if bound:
                    plain = len(bound) == 1 and isinstance(bound[0].target, ast.Name)
                    return plain and entry not in walk(bound[0].iter) and same(bound[0].iter, entry.value)
            if isinstance(here, ast.Lambda):
                called = self.holder.parent(self.holder.parent(here))  # type: ignore[arg-type]
                own = [a.arg for a in here.args.args] == [name]
                return own and first(called, *BY_KEY, d=entry.value, k=here) is not None
            here = self.holder.parent(here)
        return False

    def _first(self, entry: ast.Subscript) -> list[ast.stmt]:
        """The entry as the container would have made it."""
        return made(INSERT, d=entry.value, k=entry.slice, v=self.start)
