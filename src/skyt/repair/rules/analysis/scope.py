"""Scope: what is known at one place of the program: types, owners, and the conditions that hold on the way
there."""

from __future__ import annotations

import ast
import builtins
import collections
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from skyt.repair.rules.analysis.bounds import EVERYTHING, Interval, interval
from skyt.repair.rules.analysis.effects import Effects, disturbs, effects, test_effects
from skyt.repair.rules.analysis.program import FunctionInfo, Program
from skyt.repair.rules.analysis.syntax import call, int_value, read_names
from skyt.repair.rules.analysis.trees import OPERATORS, same, walk
from skyt.repair.rules.analysis.types import IMMUTABLE, Type, is_int, kind
from skyt.repair.rules.analysis.vocabulary import MODULE_MEMBERS

MODULES = frozenset(MODULE_MEMBERS)
BUILTINS = frozenset(dir(builtins))
BUILTIN_KINDS: dict[str, type] = {t.__name__: t for t in (list, dict, set, tuple, str, collections.deque)}
BUILTIN_KINDS["char"] = str


class Scope:
    """The place a rule looks at. `known` holds conditions that are true there and read nothing that changed
    since."""

    def __init__(
        self,
        program: Program,
        info: FunctionInfo | None,
        known: Sequence[ast.expr] | Callable[[], Sequence[ast.expr]] = (),
    ) -> None:
        self.program = program
        self.info = info
        self._known = known
        self.pure = program.pure
        self.owned = info.owned if info else frozenset()

    @cached_property
    def known(self) -> Sequence[ast.expr]:
        return self._known() if callable(self._known) else self._known

    def within(self, body: Sequence[ast.stmt]) -> Scope:
        """What holds at every statement of a block, found out when it is asked for."""
        if not self.known:
            return self
        return Scope(self.program, self.info, lambda: self.without(self.effects(body)).known)

    def type_of(self, node: ast.expr | None) -> Type:
        return self.program.type_of(node, self.info)

    def with_known(self, conditions: Sequence[ast.expr]) -> Scope:
        stable = [c for c in conditions if plain(c) or self.effects(c).pure]
        if not stable:
            return self
        return Scope(self.program, self.info, [*self.known, *stable])

    def without(self, changed: Effects) -> Scope:
        """The scope after something ran: conditions that read what it wrote are forgotten."""
        if not self.known or changed.total:
            return self
        kept = [c for c in self.known if self._survives(c, changed)]
        return self if len(kept) == len(self.known) else Scope(self.program, self.info, kept)

    def _survives(self, condition: ast.expr, changed: Effects) -> bool:
        if read_names(condition) & changed.writes:
            return False
        if not (changed.heap_writes or changed.other):
            return True
        return not disturbs(changed, self._read_by(condition), self)

    def _read_by(self, condition: ast.expr) -> Effects:
        """What asking for a condition reads, whatever holds. Remembered as other effects are."""
        key = (id(self.info), None, None, id(condition))
        found = self.program.seen.get(key)
        if found is None:
            found = self.program.seen[key] = test_effects(condition, self.bare), [condition]
        return found[0]

    def effects(self, node: ast.AST | Sequence[ast.AST]) -> Effects:
        """The effects of something here. They are remembered until the tree changes: do not add to them."""
        nodes = [node] if isinstance(node, ast.AST) else node
        key = (id(self.info), *map(id, self.known), None, *map(id, nodes))
        found = self.program.seen.get(key)
        if found is None:  # what was looked at is kept with the answer, so that no other has its identity
            found = self.program.seen[key] = effects(node, self), [*self.known, *nodes]
        return found[0]

    @cached_property
    def bare(self) -> Scope:
        """The same place, with nothing known of the way to it."""
        return Scope(self.program, self.info) if self.known else self

    def changes(self, node: ast.AST | Sequence[ast.AST]) -> Effects:
        """The effects of something, whatever holds before it."""
        return self.bare.effects(node)

    def is_module(self, name: str) -> bool:
        return name in MODULES and (self.info is None or name not in self.info.env)

    def is_member(self, node: ast.expr) -> bool:
        """Whether this is `module.name`."""
        owner = node.value if isinstance(node, ast.Attribute) else None
        return isinstance(owner, ast.Name) and self.is_module(owner.id)

    def builtin(self, node: ast.expr) -> str:
        """The name of the builtin that a name means; empty where the program binds the name itself."""
        if isinstance(node, ast.Name) and node.id in BUILTINS and node.id not in self.program.bound:
            return node.id
        return ""

    @property
    def values_shared(self) -> bool:
        """Whether nobody in the program changes what is not its own: two names for a list do no harm."""
        return self.program.facts.kind != "class" and not set(self.program.by_name) - self.program.pure

    def fresh(self, node: ast.AST | Sequence[ast.AST]) -> str:
        """A name that neither the program nor this piece of it has."""
        taken = self.program.bound | read_names(self.program.tree)
        taken |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
        return next(f"x{i}" for i in range(10_000) if f"x{i}" not in taken)

    def has_attribute(self, owner: str, name: str) -> bool:
        """Whether an object of this kind surely has this attribute here."""
        inside = self.info is not None and self.info.node.name == "__init__"
        known = self.program.always_set.get(owner.removeprefix("object:"), frozenset())
        return owner.startswith("object:") and not inside and name in known

    def has_method(self, owner: str, name: str) -> bool:
        """Whether looking up this method of an object of this kind surely finds it."""
        if owner.startswith("object:"):
            return (owner.removeprefix("object:"), name) in self.program.methods
        return owner in BUILTIN_KINDS and hasattr(BUILTIN_KINDS[owner], name)

    def is_local(self, name: str) -> bool:
        return self.info is not None and (name in self.info.assigned or name in self.info.arguments)

    def given(self, name: str) -> bool:
        """Whether a name still holds what a caller passed to the entry point."""
        info = self.info
        return info is not None and info.public and name in info.arguments and name not in info.assigned

    def bounds_of(self, name: str) -> Interval:
        return self.info.bounds_of(name) if self.info else EVERYTHING

    def interval(self, node: ast.expr) -> Interval:
        return interval(node, self) if is_int(self.type_of(node)) else EVERYTHING

    def at_least(self, low: int, node: ast.expr) -> bool:
        least = self.interval(node)[0]
        return least is not None and least >= low

    def at_most(self, high: int, node: ast.expr) -> bool:
        most = self.interval(node)[1]
        return most is not None and most <= high

    def _compared(self, op: type[ast.cmpop]) -> Iterator[tuple[ast.expr, ast.expr]]:
        """(left, right) for every comparison with this operator that holds here."""
        for c in self.known:
            if isinstance(c, ast.Compare) and len(c.ops) == 1 and isinstance(c.ops[0], op):
                yield c.left, c.comparators[0]

    def nonzero(self, node: ast.expr) -> bool:
        if self.at_least(1, node) or self.at_most(-1, node) or any(same(c, node) for c in self.known):
            return True
        return any(int_value(right) == 0 and same(left, node) for left, right in self._compared(ast.NotEq))

    def nonempty(self, node: ast.expr) -> bool:
        """Whether this container surely has an element here."""
        return any(same(c, node) for c in self.known)

    def holds_key(self, node: ast.Subscript) -> bool:
        """Whether this lookup surely finds its key."""
        container, index = node.value, node.slice
        if kind(self.type_of(container)) in {"list", "deque", "str"}:
            if int_value(index) in (0, -1):
                return self.nonempty(container)
            return bool(self.known) and self._within(index, container)
        for left, right in self._compared(ast.In):
            if same(left, index) and same(right, container):
                return True
            if same(left, index) and isinstance(container, ast.Dict) and isinstance(right, ast.Tuple):
                return all(any(same(k, e) for k in container.keys) for e in right.elts)
        return False

    def _within(self, index: ast.expr, container: ast.expr) -> bool:
        """Whether an index lies between 0 and the length, as in a loop over `range(len(container))`."""
        length = call("len", container)
        return self.at_least(0, index) and any(
            same(left, index) and same(right, length) for left, right in self._compared(ast.Lt)
        )

    def implied(self, condition: ast.expr) -> bool | None:
        """True or False where the path already decides a condition, else None."""
        for c in self.known:
            if same(c, condition):
                return True
            if isinstance(c, ast.UnaryOp) and isinstance(c.op, ast.Not) and same(c.operand, condition):
                return False
        return None

    def immutable(self, node: ast.expr) -> bool:
        return self.type_of(node) in IMMUTABLE


PLAIN = frozenset(
    [ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Attribute, ast.Subscript]
)


def plain(node: ast.expr) -> bool:
    """Whether an expression only reads: without a call nothing in it can have an effect."""
    return all(n.__class__ in PLAIN or n.__class__ in OPERATORS for n in walk(node))
