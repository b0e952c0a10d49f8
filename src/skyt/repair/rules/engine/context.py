"""One run of the engine: the tree, what is known of it, and the trace."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.program import Program
from skyt.repair.rules.analysis.reach import Liveness
from skyt.repair.rules.analysis.syntax import bound_anywhere, read_names
from skyt.repair.rules.analysis.trees import in_order, walk
from skyt.repair.rules.facts import Facts
from skyt.repair.rules.registry import Applied, Rule, finder

MAX_APPLICATIONS = 2000
MAX_WORK = 60_000  # applications times nodes: four times what any program of the recordings needs


class Census:
    """How often each name is read and stored in a piece of program, and how far into it each name and each
    attribute (`.name`) is first read."""

    def __init__(self, where: ast.AST | Sequence[ast.AST]) -> None:
        self.reads: Counter[str] = Counter()
        self.stores: Counter[str] = Counter()
        self.first_read: dict[str, int] = {}
        for i, n in enumerate(in_order(where) if isinstance(where, ast.AST) else walk(where)):
            if n.__class__ is ast.Name:
                if n.ctx.__class__ is ast.Load:
                    self.reads[n.id] += 1
                    self.first_read.setdefault(n.id, i)
                else:
                    self.stores[n.id] += 1
            elif n.__class__ is ast.Attribute and n.ctx.__class__ is ast.Load:
                self.first_read.setdefault("." + n.attr, i)


class OutOfBudgetError(Exception):
    """More applications than any terminating run needs."""


@dataclass
class Context:
    """One run of the engine: the tree, what is known of it, and the trace."""

    tree: ast.Module
    facts: Facts
    rules: Sequence[Rule]
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

    def record(self, rule: str, before: str, after: str) -> None:
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
