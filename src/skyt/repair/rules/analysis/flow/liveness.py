"""Liveness: which local names may still be read after a statement, on any path."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyt.repair.rules.analysis.trees.syntax import read_names, stored_names
from skyt.repair.rules.analysis.trees.trees import NESTED, walk

Names = frozenset[str]


EMPTY: Names = frozenset()


class Liveness:
    """Live names after each statement of a function, by its identity."""

    def __init__(self, function: ast.FunctionDef, strict: bool = False) -> None:
        """`strict` leaves out names kept alive by nested functions: it asks what is surely read too early."""
        self.after: dict[int, Names] = {}
        self.before: dict[int, Names] = {}
        self._read: dict[int, Names] = {}
        nodes = walk(function)
        nested = [n for n in nodes if n.__class__ in NESTED and n is not function]
        self.always: Names = frozenset(n.id for f in nested for n in walk(f) if isinstance(n, ast.Name))
        if strict:
            self.always = EMPTY
        self.entry = self.always | self._block(function.body, EMPTY, EMPTY, EMPTY)

    def live_after(self, s: ast.stmt) -> Names:
        return self.after.get(id(s), EMPTY) | self.always

    def _block(self, body: Sequence[ast.stmt], out: Names, on_break: Names, on_continue: Names) -> Names:
        for s in reversed(body):
            self.after[id(s)] = EMPTY if isinstance(s, ast.Return | ast.Raise) else out
            out = self._statement(s, out, on_break, on_continue)
            self.before[id(s)] = out
        return out

    def _statement(self, s: ast.stmt, out: Names, on_break: Names, on_continue: Names) -> Names:
        if isinstance(s, ast.Return | ast.Raise):
            return self._reads(s)
        if isinstance(s, ast.Break):
            return on_break
        if isinstance(s, ast.Continue):
            return on_continue
        if isinstance(s, ast.If):
            then = self._block(s.body, out, on_break, on_continue)
            other = self._block(s.orelse, out, on_break, on_continue)
            return then | other | self._reads(s.test)
        if isinstance(s, ast.While):
            return self._loop(s, frozenset(read_names(s.test)), EMPTY, out, on_break, on_continue)
        if isinstance(s, ast.For):
            inner = self._loop(s, EMPTY, frozenset(stored_names(s.target)), out, on_break, on_continue)
            return inner | read_names(s.iter)
        if isinstance(s, NESTED):
            own = {n.id for n in walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
            own |= {n.arg for n in walk(s) if isinstance(n, ast.arg)} | {getattr(s, "name", "")}
            return (out - {getattr(s, "name", "")}) | (read_names(s) - own)
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            return out | self._reads(s.value) | {s.target.id}
        if isinstance(s, ast.Delete):
            return out | {n.id for n in walk(s) if isinstance(n, ast.Name)}
        return (out - stored_names(s)) | self._reads(s)

    def _reads(self, node: ast.AST) -> Names:
        """Names read inside, remembered: the body of a loop is looked at more than once."""
        found = self._read.get(id(node))
        if found is None:
            found = self._read[id(node)] = frozenset(read_names(node))
        return found

    def _loop(
        self,
        s: ast.For | ast.While,
        test: Names,
        bound: Names,
        out: Names,
        on_break: Names,
        on_continue: Names,
    ) -> Names:
        after = self._block(s.orelse, out, on_break, on_continue)
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        head = EMPTY if endless else test | after  # `while True` is left by `break` alone
        while True:
            entered = self._block(s.body, head, out, head)
            new = head | test | (entered - bound)
            if new == head:
                return head
            head = new
