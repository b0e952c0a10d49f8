"""Effects as sets, and whether one computation can be seen by another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.effects.vocabulary import UNKNOWN

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
        self.reads |= other.reads
        self.writes |= other.writes
        self.heap_reads |= other.heap_reads
        self.heap_writes |= other.heap_writes
        self.errors |= other.errors
        self.jumps = self.jumps or other.jumps
        self.other = self.other or other.other

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
