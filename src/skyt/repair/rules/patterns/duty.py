"""One pair of templates of a rule, and whether what it moves, drops and repeats bears it at a match."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from skyt.repair.rules.analysis.effects.commuting import Effects, conflict, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import LOOPS, own_breaks, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.patterns.conditions import Condition, Where
from skyt.repair.rules.patterns.making import Made, Spelled
from skyt.repair.rules.patterns.order import Duties, duties
from skyt.repair.rules.patterns.pieces import made
from skyt.repair.rules.patterns.running import COMPREHENSIONS, JUMPS, Event, Given, elements
from skyt.repair.rules.patterns.template import OUTER, Found, Template


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
        return not any(conflict(effects[a], effects[b], scope) for a, b in asked.apart)

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
    if event.endswith(" ="):
        return scope.effects(made(f"{event} None", **found)[0].targets[0])  # type: ignore[attr-defined]
    unknown = Effects(jumps=True, other=True)  # a jump, the next round: never moved
    unknown.fails()
    return unknown
