"""Scope: what is known at one place of the program: types, owners, the conditions that hold on the way there,
and bounds of integers, from the contract, from invariants of the function, and from these conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cached_property

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import Effects, disturbs, effects
from skyt.repair.rules.analysis.program import FunctionInfo, Program
from skyt.repair.rules.analysis.syntax import compare, int_value, load, number
from skyt.repair.rules.analysis.trees import OPERATORS, STORING, same, walk
from skyt.repair.rules.analysis.types import ANY, IMMUTABLE, MODULE_MEMBERS, Type, is_int, kind

MODULES = frozenset(MODULE_MEMBERS)
PLAIN = OPERATORS.union(
    [ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Attribute, ast.Subscript]
)

Interval = tuple[int | None, int | None]
EVERYTHING: Interval = (None, None)
LIMITS: dict[type[ast.cmpop], Callable[[int], Interval]] = {
    ast.Eq: lambda k: (k, k),
    ast.Lt: lambda k: (None, k - 1),
    ast.LtE: lambda k: (None, k),
    ast.Gt: lambda k: (k + 1, None),
    ast.GtE: lambda k: (k, None),
}


class Scope:
    """The place a rule looks at. `known` are conditions that hold there and read nothing that has changed."""

    def __init__(self, program: Program, info: FunctionInfo | None, known: Sequence[ast.expr] = ()) -> None:
        self.program, self.info, self.known = program, info, known
        self.pure = program.pure
        self.owned = info.owned if info else frozenset()
        self.captured = info.captured if info else frozenset()

    def type_of(self, node: ast.expr | None) -> Type:
        result = self.program.inference.of(node, self.info.env if self.info else {})
        return ANY if result is None else result

    def with_known(self, conditions: Sequence[ast.expr]) -> Scope:
        stable = [c for c in conditions if plain(c) or self.changes(c).pure]
        if not stable:
            return self
        return Scope(self.program, self.info, [*self.known, *stable])

    def without(self, changed: Effects) -> Scope:
        """The scope after something ran: conditions that read what it wrote are forgotten."""
        if not self.known or changed.pure:
            return self
        kept = [c for c in self.known if self._survives(c, changed)]
        return self if len(kept) == len(self.known) else Scope(self.program, self.info, kept)

    def _survives(self, condition: ast.expr, changed: Effects) -> bool:
        if syntax.read_names(condition) & changed.writes:
            return False
        if not (changed.heap_writes or changed.other):
            return True
        seen = self.changes(condition)
        asked = Effects(seen.reads, heap_reads=set(seen.heap_reads))
        asked.look(self, condition)
        return not disturbs(changed, asked, self)

    def effects(self, node: ast.AST | Sequence[ast.AST]) -> Effects:
        """The effects of something here: what is known rules out errors, nothing else. They are remembered
        until the tree changes: do not add to them."""
        if self.known and not (anywhere := self.changes(node)).errors:
            return anywhere
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

    def at_start(self) -> Scope:
        """What holds where the function starts: what the contract promises of the parameters."""
        found: list[ast.expr] = []
        for name, p in self.info.given.items() if self.info else ():
            bounds = ((ast.GtE, p.min), (ast.LtE, p.max))
            found += [compare(load(name), op, number(bound)) for op, bound in bounds if bound is not None]
            found += [load(name)] * p.nonempty
        return self.with_known(found)

    def quiet(self, node: ast.AST | Sequence[ast.AST]) -> Scope:
        """What holds at every point while something runs: its parts may change what held before it. At the
        start of every round of a loop that is nothing that any round may change."""
        read = getattr(node, "ctx", None).__class__ not in STORING
        if not self.known or (read and not self.program.grows and plain(node)):
            return self
        return self.without(self.changes(node))

    def when(self, test: ast.expr, holds: bool = True) -> Scope:
        """What is known where a test has turned out true, or false."""
        return self.with_known(syntax.conjuncts(test, holds)).quiet(test)

    def after(self, s: ast.stmt) -> Scope:
        """What holds behind a statement."""
        if not self.known and not isinstance(s, ast.If | ast.While):
            return self
        if isinstance(s, ast.If) and syntax.leaves(s.body):
            return self.when(s.test, False).without(self.changes(s.orelse))
        if isinstance(s, ast.While) and not s.orelse and not syntax.own_breaks(s.body):
            return self.quiet(s).when(s.test, False)
        return self.quiet(s)

    @property
    def values_shared(self) -> bool:
        """Whether nobody in the program changes what is not its own: two names for a list do no harm."""
        return self.program.facts.kind != "class" and not set(self.program.by_name) - self.program.pure

    def fresh(self, node: ast.AST | Sequence[ast.AST]) -> str:
        """A name that neither the program nor this piece of it has."""
        taken = syntax.bound_anywhere(self.program.tree) | syntax.read_names(self.program.tree)
        taken |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
        return next(f"x{i}" for i in range(10_000) if f"x{i}" not in taken)

    def has_attribute(self, owner: str, name: str) -> bool:
        """Whether an object of this kind surely has this attribute here."""
        inside = self.info is not None and self.info.node.name == "__init__"
        known = self.program.always_set.get(owner.removeprefix("object:"), frozenset())
        return owner.startswith("object:") and not inside and name in known

    def given(self, name: str) -> bool:
        """Whether a name still holds what a caller passed to the entry point."""
        info = self.info
        if info is None or not info.public or name not in info.arguments or name in info.assigned:
            return False
        return not syntax.count_reads(self.program.tree, info.node.name)

    def interval(self, node: ast.expr) -> Interval:
        """An interval that surely holds the value of an expression, where that is an integer."""
        if not is_int(self.type_of(node)):
            return EVERYTHING
        low, high = _by_form(node, self)
        for left, op, right in self.compared:
            value = int_value(right)
            if op in LIMITS and value is not None and same(left, node):
                least, most = LIMITS[op](value)
                low = least if low is None else low if least is None else max(low, least)
                high = most if high is None else high if most is None else min(high, most)
        return low, high

    def at_least(self, low: int, node: ast.expr) -> bool:
        least = self.interval(node)[0]
        return least is not None and least >= low

    def at_most(self, high: int, node: ast.expr) -> bool:
        most = self.interval(node)[1]
        return most is not None and most <= high

    @cached_property
    def compared(self) -> list[tuple[ast.expr, type[ast.cmpop], ast.expr]]:
        """The comparisons between integers, and of membership, that hold here, either way round."""
        found: list[tuple[ast.expr, type[ast.cmpop], ast.expr]] = []
        for c in self.known:
            negated = isinstance(c, ast.UnaryOp) and isinstance(c.op, ast.Not)
            match c.operand if negated else c:  # type: ignore[attr-defined]
                case ast.Compare(left=left, ops=[op], comparators=[right]):
                    holds = syntax.opposite(type(op)) if negated else type(op)
                    if holds is not None:
                        found.append((left, holds, right))
                    if holds in LIMITS:
                        found.append((right, syntax.FLIPPED.get(holds, holds), left))
        return found

    def nonzero(self, node: ast.expr) -> bool:
        return self.at_least(1, node) or self.at_most(-1, node) or self.nonempty(node)

    def nonempty(self, node: ast.expr) -> bool:
        """Whether this container surely has an element here: whether its truth is known."""
        return any(same(c, node) for c in self.known)

    def holds_key(self, node: ast.Subscript) -> bool:
        """Whether this lookup surely finds its key."""
        container, index = node.value, node.slice
        if kind(self.type_of(container)) != "dict":
            listed = kind(self.type_of(container)) in {"list", "deque", "str"}
            return listed and int_value(index) in (0, -1) and self.nonempty(container)
        for left, op, right in self.compared:
            if op is ast.In and same(left, index) and same(right, container):
                return True
            table = isinstance(container, ast.Dict) and isinstance(right, ast.Tuple)
            if op is ast.In and same(left, index) and table:
                return all(any(same(k, e) for k in container.keys) for e in right.elts)  # type: ignore[attr-defined]
        return False

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


def plain(node: ast.AST | Sequence[ast.AST]) -> bool:
    """Whether an expression only reads: without a call nothing in it can have an effect."""
    return all(n.__class__ in PLAIN for n in walk(node))


def _by_form(node: ast.expr, scope: Scope) -> Interval:
    value = int_value(node)
    if value is not None:
        return value, value
    match node:
        case ast.Name(id=name) if scope.info is not None:
            given = scope.info.given.get(name)
            if given is not None and name not in scope.info.assigned:
                return given.min, given.max
            return (0 if name in _nonnegative(scope.info, scope.program) else None), None
        case ast.Call(func=ast.Name(id="len"), args=[container]):
            return int(scope.nonempty(container)), None
        case ast.BinOp():
            return _arithmetic(node, scope)
    return EVERYTHING


def _arithmetic(node: ast.BinOp, scope: Scope) -> Interval:
    (a, b), (c, d) = scope.interval(node.left), scope.interval(node.right)
    match node.op:
        case ast.Add():
            return _plus(a, c), _plus(b, d)
        case ast.Sub():
            return _plus(a, d, -1), _plus(b, c, -1)
        case ast.Mult() if a is not None and c is not None and a >= 0 and c >= 0:
            return a * c, b * d if b is not None and d is not None else None
        case ast.FloorDiv() if c is not None and c > 0:
            low = None if a is None else a // c if a < 0 else 0 if d is None else a // d
            return low, b // c if b is not None and b >= 0 else None
        case ast.Mod() if c is not None and c >= 0:  # the divisor is positive or the operation raises
            return 0, d - 1 if d is not None and c > 0 else None
    return EVERYTHING


def _plus(a: int | None, b: int | None, times: int = 1) -> int | None:
    return None if a is None or b is None else a + times * b


def _nonnegative(info: FunctionInfo, program: Program) -> set[str]:
    """Integer variables that are never negative: the greatest set in which every assignment keeps that."""
    if info.nonnegative is None:
        least = {name: given.min for name, given in info.given.items() if given.min is not None}
        info.nonnegative = {
            name
            for name, values in info.assigned.items()
            if None not in values and is_int(info.env.get(name)) and name not in info.captured
            if name not in info.arguments or least.get(name, -1) >= 0
        }
        scope = Scope(program, info)
        while bad := {n for n in info.nonnegative if not all(_keeps(v, scope) for v in info.assigned[n])}:
            info.nonnegative -= bad
    return info.nonnegative


def _keeps(value: ast.expr | None, scope: Scope) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="range"), args=[_]):
            return True
    return value is not None and scope.at_least(0, value)
