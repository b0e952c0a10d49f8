"""One run of the engine: the tree, what is known of it, and the trace."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from skyt.repair.rules.analysis.program import Program
from skyt.repair.rules.analysis.reach import Liveness
from skyt.repair.rules.analysis.syntax import bound_anywhere, read_names
from skyt.repair.rules.analysis.trees import in_order, text, walk
from skyt.repair.rules.facts import Facts
from skyt.repair.rules.registry import Applied, Rule, finder

MAX_APPLICATIONS = 2000
MAX_WORK = 60_000  # applications times nodes: four times what any program of the recordings needs


class Census:
    """How often each name is read and stored in a piece of program, and the place of each name and each
    attribute (`.name`) among all that it reads, in order."""

    def __init__(self, where: ast.AST | Sequence[ast.AST]) -> None:
        self.where = where
        names = [n for n in walk(where) if n.__class__ is ast.Name]
        self.reads = Counter([n.id for n in names if n.ctx.__class__ is ast.Load])
        self.stores = Counter([n.id for n in names if n.ctx.__class__ is not ast.Load])

    @cached_property
    def first_read(self) -> dict[str, int]:
        nodes = in_order(self.where)  # type: ignore[arg-type]
        reads = [n for n in nodes if getattr(n, "ctx", None).__class__ is ast.Load]
        names = ["." + n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in reads]
        return {name: place for place, name in enumerate(dict.fromkeys(names), 1)}


class OutOfBudgetError(Exception):
    """More applications than any terminating run needs."""


@dataclass
class Context:
    """One run of the engine: the tree, what is known of it, and the trace."""

    tree: ast.Module
    facts: Facts
    rules: Sequence[Rule]
    steps: bool = False  # whether the trace tells what each rule changed
    trace: list[Applied] = field(default_factory=list)
    fresh: int = 0
    rounds: int = 0
    _used: set[str] = field(default_factory=set)
    _program: Program | None = None
    _liveness: dict[int, Liveness] = field(default_factory=dict)
    _census: dict[int, Census] = field(default_factory=dict)
    _settled: dict[Hashable, tuple[int, Facts]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.find = finder(tuple(self.rules))
        self.nodes = len(walk(self.tree))
        self.most = min(MAX_APPLICATIONS, max(40, MAX_WORK // (self.nodes + 1)))

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = Program(self.tree, self.facts)
        return self._program

    def liveness(self, function: ast.FunctionDef) -> Liveness:
        if id(function) not in self._liveness:
            self._liveness[id(function)] = Liveness(function)
        return self._liveness[id(function)]

    def census(self, where: ast.AST) -> Census:
        if id(where) not in self._census:
            self._census[id(where)] = Census(where)
        return self._census[id(where)]

    def settle(self, what: Hashable) -> None:
        """Note that a function, or a rule on the module, is as it stays until something else changes."""
        self._settled[what] = len(self.trace), self.facts

    def settled(self, what: Hashable) -> bool:
        return self._settled.get(what) == (len(self.trace), self.facts)

    def moved(self) -> None:
        """Forget what depends on where things stand."""
        self._liveness.clear()
        self._census.clear()
        if self._program is not None:
            self._program.seen.clear()

    def changed(self) -> None:
        """Forget all that is known of the tree."""
        self._program = None
        self.moved()

    def assume(self, facts: Facts) -> None:
        if facts != self.facts:
            self._program = None
        self.facts = facts

    def record(self, rule: str, *change: str | ast.AST | Sequence[ast.AST]) -> None:
        """Note that a rule was applied, and what stood there before and after."""
        before, after = (c if isinstance(c, str) else text(c) for c in change) if self.steps else ("", "")
        self.trace.append(Applied(rule, before, after))
        self.moved()
        if len(self.trace) > self.most:
            raise OutOfBudgetError(f"no end after {self.most} applications of rules to {self.nodes:,} nodes")

    def name(self, base: str = "t") -> str:
        """A name that occurs nowhere in the program."""
        if not self._used:
            self._used = bound_anywhere(self.tree) | read_names(self.tree)
        while True:
            self.fresh += 1
            candidate = f"{base.rstrip('0123456789_') or 't'}_{self.fresh}"
            if candidate not in self._used:
                return candidate
