"""Order of evaluation: what a rule moves, drops or repeats, found from its two templates alone.

A template is executed symbolically (see running), once for every way its conditions may turn out. That gives
the sequence of things that happen on that way. Where the sequences of before and after differ, the rule may
only be applied to what bears it: what is dropped or added must not be noticed, what is repeated must give the
same again, what changes places must commute, and what goes into or out of a loop must not be noticed, nor be
changed by the loop. The engine asks the analysis about exactly these at every match, so that no rule can
forget it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from skyt.repair.rules.patterns.running import LOOP, Event, Given, Run
from skyt.repair.rules.patterns.template import Template


@dataclass(frozen=True)
class Duties:
    """What must be shown of the pieces that a rule is applied to."""

    total: frozenset[Event] = frozenset()  # dropped, or evaluated where it was not
    pure: frozenset[Event] = frozenset()  # repeated
    apart: frozenset[tuple[Event, Event]] = frozenset()  # changed places
    steady: frozenset[Event] = frozenset()  # went into or out of a loop
    rounds: frozenset[Event] = field(default=frozenset(), compare=False)  # what happens in the loops

    @property
    def events(self) -> set[Event]:
        """All of which something must be shown."""
        pairs = {e for pair in self.apart for e in pair}
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
    rounds = set[Event]()
    ways = [*_ways(before, given), *_ways(after, given)]
    joint = [{**a, **b} for a in ways for b in ways if all(a[k] == b[k] for k in a.keys() & b.keys())]
    for answers in joint:
        runs = [Run(given, answers).through(t) for t in (before, after)]
        old, new = (run.events for run in runs)
        rounds = rounds.union(*(run.in_loops for run in runs))
        if old == new:
            continue
        total |= {e for e in set(old) ^ set(new) if not e.startswith(LOOP)}
        pure |= {e for e in set(old) & set(new) if old.count(e) != new.count(e)}
        both = [e for e in dict.fromkeys(old) if e in new]
        for a, b in combinations(both, 2):
            if _precedes(old, a, b) and _precedes(new, a, b):
                continue
            if a.startswith(LOOP) or b.startswith(LOOP):
                steady.add(b if a.startswith(LOOP) else a)
            else:
                apart.add((a, b))
    return Duties(frozenset(total), frozenset(pure), frozenset(apart), frozenset(steady), frozenset(rounds))


def _precedes(events: list[Event], a: Event, b: Event) -> bool:
    """Whether every occurrence of one comes before every occurrence of the other."""
    return len(events) - events[::-1].index(a) - 1 < events.index(b)
