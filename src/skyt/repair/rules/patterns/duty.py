"""Order of evaluation: what a rule moves, drops or repeats, found from its two templates alone.

A template is executed symbolically, once for every way its conditions may turn out. That gives the sequence
of things that happen on that way. Where the sequences of before and after differ, the rule may only be
applied to what bears it: what is dropped or added must not be noticed, what is repeated must give the same
again, what changes places must commute, and what goes into or out of a loop must not be noticed, nor be
changed by the loop. The engine asks the analysis about exactly these at every match, so that no rule can
forget it.

Of a loop one round is executed: a way ends where the next round begins. Two loops whose rounds do the same
things in the same order, and which are left in the same way, do the same. Blocks that a name stands for may
leave by `break` or `continue` where the program's block does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import NoReturn

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs, operation
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, own_breaks, rename, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, clone, walk
from skyt.repair.rules.patterns.conditions import Condition, Where, together
from skyt.repair.rules.patterns.making import Made, Spelled
from skyt.repair.rules.patterns.template import FIXED, OUTER, Found, Template, block_name, made, value

# A name of the template; `x =` or `d[k] =` for a store; what an operation on names does, by its text; the
# start of a loop; a jump.
Event = str
LOOP = "loop "
DOES = "do "
OPERATIONS = (ast.BinOp, ast.Subscript, ast.Call, ast.Compare, ast.UnaryOp)
JUMPS: dict[type[ast.stmt], str] = {ast.Break: "break", ast.Continue: "continue"}
ENDS = frozenset({*JUMPS.values(), "return", "next round"})
Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp


def elements(made: Comprehension) -> list[ast.expr]:
    """What a comprehension evaluates in each round."""
    return [made.key, made.value] if isinstance(made, ast.DictComp) else [made.elt]


class _EndError(Exception):
    """Nothing of the template runs after this."""


class Run:
    """One execution of a template, with given answers to its conditions."""

    def __init__(self, given: Condition, answers: Mapping[Event, bool]) -> None:
        self.given, self.answers = given, answers
        self.events: list[Event] = []
        self.in_loops: set[Event] = set()
        self.asked: dict[Event, bool] = {}
        self.loops = 0

    def through(self, template: Template) -> Run:
        try:
            self._end(self.block(template.body) or self.given.end)
        except _EndError:
            return self

    def _end(self, event: Event) -> NoReturn:
        if event:
            self.events.append(event)
        raise _EndError

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self.loops:
            self.in_loops.add(event)

    def ask(self, key: Event) -> bool:
        self.asked[key] = self.answers.get(key, False)
        return self.asked[key]

    def block(self, body: list[ast.stmt]) -> str:
        """How control leaves: `break`, `continue`, or nothing where it runs on."""
        return next((jump for s in body if (jump := self.statement(s))), "")

    def statement(self, s: ast.stmt) -> str:
        name = block_name(s)
        if name is not None:
            return self._pieces(name)
        if s.__class__ in JUMPS:
            return JUMPS[s.__class__]
        if isinstance(s, ast.If):
            return self.block(s.body if self.truth(s.test) else s.orelse)
        if isinstance(s, ast.Return):
            if s.value is not None:
                self.value(s.value)
            self._end("return")
        if isinstance(s, ast.For | ast.While):
            return self._loop(s)
        if isinstance(s, ast.Assign):
            self.value(s.value)
            for t in s.targets:
                self.store(t)
        elif isinstance(s, ast.AugAssign):
            self.value(ast.BinOp(s.target, s.op, s.value))
            self.store(s.target)
        elif isinstance(s, ast.Expr):
            self.value(s.value)
        elif not isinstance(s, ast.Pass):
            raise ValueError(f"{ast.unparse(s)}: no template has this")
        return ""

    def _pieces(self, name: str) -> str:
        """A name that stands for statements."""
        self.add(name)
        for block, jump in sorted(self.given.jumps):
            if block == name and self.ask(f"{name} leaves by {jump}"):
                return jump
        if name in self.given.leaving:
            self._end("")
        return ""

    def _loop(self, s: ast.For | ast.While) -> str:
        made = s.iter if isinstance(s, ast.For) else None
        fused = isinstance(made, ast.GeneratorExp) or (isinstance(made, ast.ListComp) and self.given.lazily)
        if fused:
            going = self._rounds(made)  # type: ignore[arg-type]
        else:
            going = self._head(made, s.test if isinstance(s, ast.While) else None)
        if not going:
            return self.block(s.orelse)
        if isinstance(s, ast.For):
            if fused:
                self.value(made.elt)  # type: ignore[union-attr]
            self.store(s.target)
        if self.block(s.body) != "break":
            self._end("next round")
        return ""

    def _head(self, iterated: ast.expr | None, test: ast.expr | None = None) -> bool:
        """The start of a loop; whether a round begins."""
        if iterated is not None:
            self.value(iterated)
        self.events.append(LOOP + str(self.loops))
        self.loops += 1
        return self.ask(self._round()) if test is None else self.truth(test)

    def _round(self) -> Event:
        """The condition that the latest loop goes on."""
        return f"round of {LOOP}{self.loops}"

    def _rounds(self, made: Comprehension) -> bool:
        """A comprehension up to its element: whether a round begins."""
        generator = made.generators[0]
        if not self._head(generator.iter):
            return False
        self.store(generator.target)
        if not all(map(self.truth, generator.ifs)):
            self._end("next round")
        return True

    def truth(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.truth(node.operand)
        if isinstance(node, ast.BoolOp):
            conjunction = isinstance(node.op, ast.And)
            for value in node.values:
                if self.truth(value) is not conjunction:
                    return not conjunction
            return conjunction
        self.value(node)
        counts = any(isinstance(n, ast.Name) and n.id in self.given.own for n in ast.walk(node))
        return self.ask(self._round() if counts else ast.unparse(node))

    def store(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self.store(part)
            return
        event = f"{ast.unparse(target)} ="
        if ast.unparse(target) in self.given.own:
            self.in_loops.add(event)
        elif not isinstance(target, ast.Constant):
            self.add(event)

    def value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            if node.id not in FIXED and node.id not in self.given.own:
                self.add(node.id)
        elif isinstance(node, ast.BoolOp):
            conjunction = isinstance(node.op, ast.And)
            for value in node.values[:-1]:
                if self.truth(value) is not conjunction:
                    return
            self.value(node.values[-1])
        elif isinstance(node, ast.IfExp):
            self.value(node.body if self.truth(node.test) else node.orelse)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.truth(node)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            self._chain(node)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], COMPREHENSIONS):
            self._consumed(node.func, node.args[0])
        elif isinstance(node, COMPREHENSIONS):
            self._consumed(None, node)
        else:
            self._parts(node)
            if isinstance(node, OPERATIONS) and not self._is_own(node):
                self.add(DOES + ast.unparse(node))

    def _parts(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.keyword):
                self.value(child.value)

    def _is_own(self, node: ast.expr) -> bool:
        """Whether something is about what is the rule's business alone; None stands for a new variable."""
        own = {*self.given.own, "None"}
        return any(isinstance(n, ast.expr) and ast.unparse(n) in own for n in ast.walk(node))

    def _chain(self, node: ast.Compare) -> None:
        self.value(node.left)
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            self.value(right)
            if not self.ask(ast.unparse(ast.Compare(left, [op], [right]))):
                return
            left = right

    def _consumed(self, consumer: ast.expr | None, made: Comprehension) -> None:
        """A comprehension and what uses it up; `any` and `all` leave it at the first element that decides."""
        if consumer is not None:
            self.value(consumer)
        if not self._rounds(made):
            return
        if isinstance(consumer, ast.Name) and consumer.id in {"any", "all"}:
            if self.truth(*elements(made)) is (consumer.id == "any") and isinstance(made, ast.GeneratorExp):
                return
        else:
            for element in elements(made):
                self.value(element)
        self._end("next round")


@dataclass(frozen=True)
class Duties:
    """What must be shown of the pieces that a rule is applied to."""

    total: frozenset[Event] = frozenset()  # dropped, or evaluated where it was not
    pure: frozenset[Event] = frozenset()  # repeated
    apart: frozenset[tuple[Event, Event]] = frozenset()  # changed places
    steady: frozenset[Event] = frozenset()  # went into or out of a loop
    sooner: frozenset[tuple[Event, Event]] = frozenset()  # (operation of one side, what comes after it)
    rounds: frozenset[Event] = field(default=frozenset(), compare=False)  # what happens in the loops

    @property
    def events(self) -> set[Event]:
        """All of which something must be shown."""
        pairs = {e for pair in self.apart | self.sooner for e in pair}
        return {*self.total, *self.pure, *self.steady, *pairs, *(self.rounds if self.steady else ())}


def _ways(template: Template, given: Condition) -> Iterator[dict[Event, bool]]:
    """Every way the conditions of a template may turn out."""
    pending: list[dict[Event, bool]] = [dict(given.known)]
    while pending:
        answers = pending.pop()
        run = Run(given, answers).through(template)
        new = [k for k in run.asked if k not in answers]
        if not new:
            yield answers
        else:
            pending += [{**answers, new[0]: value} for value in (True, False)]


def duties(before: Template, after: Template, given: Condition) -> Duties:
    """What a rule with these templates has to show, on every way through either."""
    total, pure, apart, steady = set[Event](), set[Event](), set[tuple[Event, Event]](), set[Event]()
    rounds, sooner = set[Event](), set[tuple[Event, Event]]()
    ways = [*_ways(before, given), *_ways(after, given)]
    joint = [{**a, **b} for a in ways for b in ways if all(a[k] == b[k] for k in a.keys() & b.keys())]
    for answers in joint:
        runs = [Run(given, answers).through(t) for t in (before, after)]
        old, new = (run.events for run in runs)
        rounds = rounds.union(*(run.in_loops for run in runs))
        if old == new:
            continue
        total |= {e for e in set(old) ^ set(new) if not e.startswith((LOOP, DOES))}
        pure |= {e for e in set(old) & set(new) if old.count(e) != new.count(e)}
        both = [e for e in dict.fromkeys(old) if e in new]
        for a, b in combinations(both, 2):
            if _precedes(old, a, b) and _precedes(new, a, b):
                continue
            if a.startswith(LOOP) or b.startswith(LOOP):
                steady.add(b if a.startswith(LOOP) else a)
            else:
                apart.add((a, b))
        sooner |= {*_overtaken(old, both), *_overtaken(new, both)}
    events = [frozenset(found) for found in (total, pure, steady, rounds)]
    return Duties(events[0], events[1], frozenset(apart), events[2], frozenset(sooner), events[3])


def _overtaken(events: list[Event], both: list[Event]) -> Iterator[tuple[Event, Event]]:
    """(operation, what happens after it) for operations that only one side has: what raises in their stead on
    the other side may do so later or sooner."""
    for i, e in enumerate(events):
        if e.startswith(DOES) and e not in both:
            later = [x for x in events[i + 1 :] if x in both and not x.startswith(LOOP) and x not in ENDS]
            yield from ((e, x) for x in later)


def _precedes(events: list[Event], a: Event, b: Event) -> bool:
    """Whether every occurrence of one comes before every occurrence of the other."""
    return len(events) - events[::-1].index(a) - 1 < events.index(b)


class Rewriting:
    """One pair of templates of a rule, with what has to be shown for it."""

    def __init__(
        self, before: str, after: str, needs: Sequence[Condition], made: Mapping[str, Made] | None = None
    ) -> None:
        self.before, self.after, self.needs = Template.read(before), Template.read(after), needs
        self.made = {name: m for name, m in (made or {}).items() if name in self.after.names}
        if unknown := self.after.names - self.before.names - set(self.made):
            raise ValueError(f"{sorted(unknown)[0]} stands for nothing: it is not in\n{self.before.text}")
        self.given = together(needs)
        spelled = Spelled(self.made)
        self._evaluated = Template(self.after.text, [spelled.visit(clone(s)) for s in self.after.body])
        self._duties: dict[frozenset[tuple[str, str]], Duties] = {}
        self.loops = any(isinstance(n, LOOPS) for n in walk(self.before.body))
        self.gone = self.given.own & stored_names(self.before.body) - self.after.names
        loops = [n for n in walk(self.before.body) if isinstance(n, ast.For)]
        self.heads = [[n.id for n in walk([s.target, s.iter]) if isinstance(n, ast.Name)] for s in loops]
        self.renames = any(m.like == "None" for m in self.made.values())  # the analysis has no type for these
        self.duties = self._shown(frozenset())

    def _shown(self, jumps: frozenset[tuple[str, str]]) -> Duties:
        """What has to be shown where blocks have these jumps."""
        if jumps not in self._duties:
            self._duties[jumps] = duties(self.before, self._evaluated, replace(self.given, jumps=jumps))
        return self._duties[jumps]

    def pieces(self, found: Found, where: Where) -> Found | None:
        """All that the after side needs; None where a condition fails or something bears no moving."""
        if (OUTER in found and not self.given.inner) or self._confused(found):
            return None
        if not self.given.holds(found, where):
            return None
        pieces = dict(found)
        for name, computed in self.made.items():
            piece = computed.compute(pieces, where)
            if piece is None:
                return None
            pieces[name] = piece
        return self._released(pieces, where) if self._in_turn(pieces, where.scope) else None

    def _confused(self, found: Found) -> bool:
        """Whether a variable of a loop is also another one, or what the loop goes through."""
        for head in self.heads:
            named = [found[n].id for n in dict.fromkeys(head) if isinstance(found.get(n), ast.Name)]  # type: ignore[union-attr]
            if len(named) != len(set(named)):
                return True
        return False

    def _in_turn(self, found: Found, scope: Scope) -> bool:
        """Whether what the rule moves, drops and repeats bears it."""
        asked = self._shown(_jumps(found)) if self.loops else self.duties
        effects = {e: _effects(e, found, scope) for e in asked.events}
        if not all(effects[e].total for e in asked.total | asked.steady):
            return False
        if not all(effects[e].pure for e in asked.pure):
            return False
        if any(disturbs(effects[r], effects[e], scope) for e in asked.steady for r in asked.rounds):
            return False
        failing = [(Effects(errors=effects[a].errors), b) for a, b in asked.sooner if effects[a].raises]
        pairs = [*((effects[a], b) for a, b in asked.apart), *failing]
        return not any(conflict(a, effects[b], scope) for a, b in pairs)

    @cached_property
    def _comprehended(self) -> list[tuple[set[str], set[str]]]:
        """(variables, names of pieces that have them) of comprehensions that become loops."""
        found = []
        loops = [s.target for s in walk(self.after.body) if isinstance(s, ast.For)]
        for n in walk(self.before.body):
            if isinstance(n, COMPREHENSIONS) and (
                bound := stored_names(n.generators[0].target)
            ) & stored_names(loops):
                inside = [*elements(n), *n.generators[0].ifs, n.generators[0].target]
                found.append((bound, {x.id for x in walk(inside) if isinstance(x, ast.Name)}))
        return found

    def _released(self, found: Found, where: Where) -> Found:
        """The pieces with new names for variables that were a comprehension's own."""
        for bound, names in self._comprehended:
            variables = {v for target in bound for v in stored_names(found[target])}
            new = {v: where.name(v.rstrip("0123456789_") or "c", found) for v in sorted(variables)}
            found |= {n: rename(clone(found[n]), new) for n in names if n in found}  # type: ignore[type-var]
        return found


def _jumps(found: Found) -> frozenset[tuple[str, str]]:
    """The blocks that have a `break` or `continue` of their own."""
    blocks = [(name, piece) for name, piece in found.items() if isinstance(piece, list)]
    return frozenset((n, word) for n, body in blocks for k, word in JUMPS.items() if own_breaks(body, (k,)))


def _effects(event: Event, found: Found, scope: Scope) -> Effects:
    if event in found:
        return scope.effects(found[event])
    if event.startswith(DOES):
        return operation(value(event.removeprefix(DOES), **found), scope)
    if event.endswith(" ="):
        return scope.effects(made(f"{event} None", **found)[0].targets[0])  # type: ignore[attr-defined]
    unknown = Effects(jumps=True, other=True)  # a jump, the next round: never moved
    unknown.fails()
    return unknown
