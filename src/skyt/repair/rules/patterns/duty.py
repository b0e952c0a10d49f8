"""Order of evaluation: what a rule moves, drops or repeats, found from its two templates alone.

A template is executed symbolically (see running), once for every way its conditions may turn out. That gives
the sequence of things that happen on that way. Where the sequences of before and after differ, the rule may
only be applied to what bears it: what is dropped or added must not be noticed, what is repeated must give the
same again, what changes places must commute, and what goes into or out of a loop must not be noticed, nor be
changed by the loop. The engine asks the analysis about exactly these at every match, so that no rule can
forget it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs, operation
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, own_breaks, rename, stored_names
from skyt.repair.rules.analysis.trees import clone, walk
from skyt.repair.rules.patterns.conditions import Condition, Where
from skyt.repair.rules.patterns.making import Made, Spelled
from skyt.repair.rules.patterns.running import (
    COMPREHENSIONS,
    DOES,
    ENDS,
    JUMPS,
    LOOP,
    Event,
    Given,
    Run,
    elements,
)
from skyt.repair.rules.patterns.template import OUTER, Found, Template, made, value


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


def _ways(template: Template, given: Given) -> Iterator[dict[Event, bool]]:
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


def duties(before: Template, after: Template, given: Given) -> Duties:
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
        self.given = Given(
            leaving=frozenset[str]().union(*(n.leaving for n in needs)),
            known={name: value for n in needs for name, value in n.decides.items()},
            own=frozenset[str]().union(*(n.own for n in needs)),
            end="".join({n.end for n in needs}),
            lazily=any(n.lazily for n in needs),
        )
        spelled = Spelled(self.made)
        self._evaluated = Template(self.after.text, [spelled.visit(clone(s)) for s in self.after.body])
        self._duties: dict[frozenset[tuple[str, str]], Duties] = {}
        self.loops = any(isinstance(n, LOOPS) for n in walk(self.before.body))
        self.gone = self.given.own & stored_names(self.before.body) - self.after.names
        loops = [n for n in walk(self.before.body) if isinstance(n, ast.For)]
        self.heads = [[n.id for n in walk([s.target, s.iter]) if isinstance(n, ast.Name)] for s in loops]
        self.inner = any(n.inner for n in needs)
        self.renames = any(m.like == "None" for m in self.made.values())  # the analysis has no type for these
        self.duties = self._shown(frozenset())

    def _shown(self, jumps: frozenset[tuple[str, str]]) -> Duties:
        """What has to be shown where blocks have these jumps."""
        if jumps not in self._duties:
            self._duties[jumps] = duties(self.before, self._evaluated, replace(self.given, jumps=jumps))
        return self._duties[jumps]

    def pieces(self, found: Found, where: Where) -> Found | None:
        """All that the after side needs; None where a condition fails or something bears no moving."""
        if (OUTER in found and not self.inner) or self._confused(found):
            return None
        if not all(n.holds(found, where) for n in self.needs):
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
