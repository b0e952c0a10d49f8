"""Liveness: which local names may still be read after a statement, on any path, also by its jumps."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from skyt.repair.rules.analysis.syntax import bound_anywhere, is_true, read_names, stored_names
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
        self.entry = self.always | self._block(function.body, EMPTY, {})[0]

    def live_after(self, s: ast.stmt) -> Names:
        return self.after.get(id(s), EMPTY) | self.always

    def _block(self, body: Sequence[ast.stmt], out: Names, ends: Mapping[type, Names]) -> tuple[Names, Names]:
        """(live before a block, live where the jumps in it lead), given what is live behind it and where
        `break` and `continue` end."""
        away = EMPTY
        for s in reversed(body):
            before, left = self._statement(s, out, ends)
            self.after[id(s)] = EMPTY if isinstance(s, ast.Return | ast.Raise) else out | left
            out, away = before, away | left
        return out, away

    def _statement(self, s: ast.stmt, out: Names, ends: Mapping[type, Names]) -> tuple[Names, Names]:
        match s:
            case ast.Return() | ast.Raise():
                return self._reads(s), EMPTY
            case ast.Break() | ast.Continue():
                return ends[s.__class__], ends[s.__class__]
            case ast.If(test=test, body=body, orelse=orelse):
                then, left = self._block(body, out, ends)
                other, more = self._block(orelse, out, ends)
                return then | other | self._reads(test), left | more
            case ast.While(test=test, body=body, orelse=orelse):
                after, left = self._block(orelse, out, ends)
                after = EMPTY if is_true(test) else after  # `while True` is left by `break` alone
                return self._loop(body, self._reads(test) | after, EMPTY, out), left
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                after, left = self._block(orelse, out, ends)
                return self._loop(body, after, stored_names(target), out) | self._reads(source), left
            case ast.FunctionDef(name=name):
                return (out | (self._reads(s) - bound_anywhere(s))) - {name}, EMPTY
            case ast.AugAssign(target=target):  # which reads its target
                return out | self._reads(s) | stored_names(target), EMPTY
        return (out - stored_names(getattr(s, "targets", ()))) | self._reads(s), EMPTY

    def _reads(self, node: ast.AST) -> Names:
        """Names read inside, remembered: the body of a loop is looked at more than once."""
        found = self._read.get(id(node))
        if found is None:
            found = self._read[id(node)] = frozenset(read_names(node))
        return found

    def _loop(self, body: Sequence[ast.stmt], new: Names, bound: set[str] | Names, out: Names) -> Names:
        """What is live at the head of a loop: `new` by its test or its end, `bound` is set there."""
        while True:
            head = new
            new = head | (self._block(body, head, {ast.Break: out, ast.Continue: head})[0] - bound)
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
