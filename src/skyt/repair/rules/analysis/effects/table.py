"""Effects: what an expression or statement reads, writes and may raise, so that rules know what may move
past what.

Every kind of node has an entry in a table; one without an entry does everything. The heap is divided by
roots: `stack.append(x)` writes the object that `stack` names. A root that its function owns (made there,
never handed out) can only be reached by that name; all other roots may be the same object. Attributes are
divided by their names: `a.x` and `b.y` are never the same place, `a.x` and `b.x` may be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.effects.vocabulary import UNKNOWN
from skyt.repair.rules.analysis.trees.trees import children, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

ATTRIBUTES = ".*"  # a heap root: any attribute of any object


@dataclass
class Effects:
    """Names read and written, heap roots read and written, and whether it may raise or do anything else."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    heap_reads: set[str] = field(default_factory=set)
    heap_writes: set[str] = field(default_factory=set)
    errors: set[str] = field(default_factory=set)  # kinds of exception it may raise; UNKNOWN for any kind
    jumps: bool = False  # may not run on to what follows: return, break, an endless loop
    other: bool = False  # calls something unknown

    def fails(self, condition: bool = True, kind: str = UNKNOWN) -> None:
        if condition:
            self.errors.add(kind)

    def include(self, other: Effects) -> None:
        """These effects and those."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) | value)

    @property
    def raises(self) -> bool:
        return bool(self.errors)

    @property
    def pure(self) -> bool:
        return not (self.writes or self.heap_writes or self.other or self.jumps)

    @property
    def total(self) -> bool:
        """Pure and never raising: may be evaluated any number of times, or not at all."""
        return self.pure and not self.raises


def conflict(first: Effects, second: Effects, scope: Scope) -> bool:
    """Whether swapping two adjacent computations could be seen."""
    if first.jumps or second.jumps:
        return True
    if first.other or second.other:
        return not (first.total and not first.heap_reads) and not (second.total and not second.heap_reads)
    if first.writes & (second.reads | second.writes) or second.writes & first.reads:
        return True
    if _meet(first.heap_writes, second.heap_reads | second.heap_writes, scope):
        return True
    if _meet(second.heap_writes, first.heap_reads, scope):
        return True
    if (
        first.raises
        and second.raises
        and (first.errors != second.errors or len(first.errors) > 1 or UNKNOWN in first.errors)
    ):
        return True
    return (first.raises and _outlives(second, scope)) or (second.raises and _outlives(first, scope))


def disturbs(changed: Effects, seen: Effects, scope: Scope) -> bool:
    """Whether running the first may change the value of the second."""
    if changed.writes & seen.reads or _meet(changed.heap_writes, seen.heap_reads, scope):
        return True
    return changed.other and any(r not in scope.owned for r in seen.heap_reads)


def _outlives(e: Effects, scope: Scope) -> bool:
    """Whether an effect can still be seen after an exception has left the function."""
    return e.other or any(root not in scope.owned for root in e.heap_writes)


def _meet(writes: set[str], touched: set[str], scope: Scope) -> bool:
    owned = scope.owned
    for w in writes:
        for t in touched:
            if w == t or (ATTRIBUTES in (w, t) and w[0] == t[0] == "."):
                return True
            if w[0] != "." and t[0] != "." and w not in owned and t not in owned:
                return True
    return False


Entry = Callable[[Any, "Scope", Effects], None]
ENTRIES: dict[type, Entry] = {}  # by kind of node, what it does beside its parts; filled in `nodes.py`
ALONE: set[type] = set()  # kinds whose entry knows what to do with the parts


def effects(node: ast.AST | Sequence[ast.AST], scope: Scope) -> Effects:
    """The effects of an expression, a statement or a list of them, insides included."""
    found = Effects()
    for item in [node] if isinstance(node, ast.AST) else node:
        add(item, scope, found)
    if not found.pure and scope.known:  # what held before may not hold any more within
        later = scope.without(found)
        if later is not scope:
            return effects(node, later)
    return found


def test_effects(node: ast.expr, scope: Scope) -> Effects:
    """The effects of asking whether an expression is true: a container is read to see whether it is empty."""
    found = effects(node, scope)
    glance(node, scope, found)
    return found


def root(node: ast.expr) -> str:
    """The name under which the heap object of this expression is reached; UNKNOWN if it is not a plain
    name.
    """
    return node.id if isinstance(node, ast.Name) else UNKNOWN


def add(node: ast.AST, scope: Scope, found: Effects) -> None:
    kind = node.__class__
    if kind not in ALONE:
        for child in children(node):
            add(child, scope, found)
    ENTRIES.get(kind, everything)(node, scope, found)


def everything(node: ast.AST, scope: Scope, found: Effects) -> None:
    names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
    found.reads |= names
    found.writes |= names
    found.heap_reads |= names | {UNKNOWN, ATTRIBUTES}
    found.heap_writes |= names | {UNKNOWN, ATTRIBUTES}
    found.fails()
    found.other = found.jumps = True


def read(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking into a value: its own parts, and those of its elements where they can change."""
    t = scope.type_of(node)
    if t in IMMUTABLE:
        return
    found.heap_reads.add(root(node))
    if not (isinstance(t, tuple) and all(map(_flat, t[1:]))):
        found.heap_reads |= {UNKNOWN, ATTRIBUTES}


def glance(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking at a value's own parts, and not into them."""
    if scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))


def _flat(t: Any) -> bool:
    return t is None or t in IMMUTABLE or (kind(t) in {"pair", "tuple"} and all(map(_flat, t[1:])))


def truth(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Asking a container whether it is empty reads it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        glance(node, scope, found)
