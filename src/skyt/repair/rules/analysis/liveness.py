"""Liveness: which local names may still be read after a statement, on any path, also by its jumps."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyt.repair.rules.analysis.syntax import bound_anywhere, is_true, own_breaks, read_names, stored_names
from skyt.repair.rules.analysis.trees import NESTED, walk

Names = frozenset[str]
EMPTY: Names = frozenset()


class Liveness:
    """Live names after each statement of a function, by its identity."""

    def __init__(self, function: ast.FunctionDef, strict: bool = False) -> None:
        """`strict` leaves out names kept alive by nested functions: it asks what is surely read too early."""
        self.after: dict[int, Names] = {}
        self._read: dict[int, Names] = {}
        nested = [n for n in walk(function) if n.__class__ in NESTED and n is not function]
        captured = frozenset(n.id for n in walk(nested) if isinstance(n, ast.Name))
        self.always: Names = EMPTY if strict else captured
        self.entry = self.always | self._block(function.body, EMPTY, EMPTY, EMPTY)

    def live_after(self, s: ast.stmt) -> Names:
        return self.after.get(id(s), EMPTY) | self.always

    def _block(self, body: Sequence[ast.stmt], out: Names, on_break: Names, on_continue: Names) -> Names:
        for s in reversed(body):
            jumps = on_break if on_break and own_breaks([s], (ast.Break,)) else EMPTY
            if on_continue and own_breaks([s], (ast.Continue,)):
                jumps |= on_continue
            self.after[id(s)] = EMPTY if isinstance(s, ast.Return | ast.Raise) else out | jumps
            out = self._statement(s, out, on_break, on_continue)
        return out

    def _statement(self, s: ast.stmt, out: Names, on_break: Names, on_continue: Names) -> Names:
        if isinstance(s, ast.Return | ast.Raise):
            return self._reads(s)
        if isinstance(s, ast.Break | ast.Continue):
            return on_break if isinstance(s, ast.Break) else on_continue
        if isinstance(s, ast.If):
            then = self._block(s.body, out, on_break, on_continue)
            return then | self._block(s.orelse, out, on_break, on_continue) | self._reads(s.test)
        if isinstance(s, ast.While):
            after = self._block(s.orelse, out, on_break, on_continue)
            # `while True` is left by `break` alone
            return self._loop(s, self._reads(s.test), EMPTY if is_true(s.test) else after, EMPTY, out)
        if isinstance(s, ast.For):
            after = self._block(s.orelse, out, on_break, on_continue)
            return self._loop(s, EMPTY, after, stored_names(s.target), out) | self._reads(s.iter)
        if isinstance(s, ast.FunctionDef):
            return (out | (self._reads(s) - bound_anywhere(s))) - {s.name}
        if isinstance(s, ast.AugAssign):  # which reads its target
            return out | self._reads(s) | stored_names(s)
        return (out - stored_names(s)) | self._reads(s)

    def _reads(self, node: ast.AST) -> Names:
        """Names read inside, remembered: the body of a loop is looked at more than once."""
        found = self._read.get(id(node))
        if found is None:
            found = self._read[id(node)] = frozenset(read_names(node))
        return found

    def _loop(
        self, s: ast.For | ast.While, test: Names, after: Names, bound: set[str] | Names, out: Names
    ) -> Names:
        """What is live at the head of a loop: `test` is read there, `after` when it ends, `bound` is set."""
        new = test | after
        while True:
            head = new
            new = head | (self._block(s.body, head, out, head) - bound)
            if new == head:
                return head


def unbound_name(tree: ast.Module) -> str | None:
    """A local that may be read before it has a value, in any function; None if there is none. Rules take for
    granted that reading a local never fails, so programs where it may are left alone."""
    for function in walk(tree):
        if isinstance(function, ast.FunctionDef):
            stored, arguments = stored_names(function.body), {a.arg for a in function.args.args}
            if early := (Liveness(function, strict=True).entry & stored) - arguments:
                return min(early)
    return None
