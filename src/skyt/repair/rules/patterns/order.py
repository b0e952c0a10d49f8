"""Order of evaluation: what a rule moves, drops or repeats, found from its two templates alone.

A template is executed symbolically, once for every way its conditions may turn out. That gives the sequence
of things that happen on that way. Where the sequences of before and after differ, the rule may only be
applied to what bears it: what is dropped or added must not be noticed, what is repeated must give the same
again, and what changes places must commute. The engine asks the analysis about exactly these at every match,
so that no rule can forget it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from skyt.repair.rules.patterns.template import FIXED, Template, _block_name

Event = str  # a name of the template; `x =` for a store of it; the text of a loop


@dataclass(frozen=True)
class Duties:
    """What must be shown of the pieces that a rule is applied to."""

    total: frozenset[Event] = frozenset()  # dropped, or evaluated where it was not
    pure: frozenset[Event] = frozenset()  # repeated
    apart: frozenset[tuple[Event, Event]] = frozenset()  # changed places


class _Run:
    """One execution of a template, with given answers to its conditions."""

    def __init__(self, answers: dict[Event, bool], leaving: frozenset[str]) -> None:
        self.answers, self.leaving = answers, leaving
        self.events: list[Event] = []
        self.asked: dict[Event, bool] = {}
        self.stopped = False

    def block(self, body: list[ast.stmt]) -> None:
        for s in body:
            if self.stopped:
                return
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        name = _block_name(s)
        if name is not None:
            self.events.append(name)
            self.stopped = name in self.leaving
        elif isinstance(s, ast.If):
            self.block(s.body if self.truth(s.test) else s.orelse)
        elif isinstance(s, ast.Return):
            if s.value is not None:
                self.value(s.value)
            self.events.append("return")
            self.stopped = True
        elif isinstance(s, ast.Assign):
            self.value(s.value)
            self.events += [f"{ast.unparse(t)} =" for t in s.targets]
        elif isinstance(s, ast.Expr):
            self.value(s.value)
        elif isinstance(s, ast.For | ast.While):
            head = s.iter if isinstance(s, ast.For) else None
            if head is not None:
                self.value(head)
            parts = [*s.body, s.target if isinstance(s, ast.For) else s.test]
            inner = "\n".join(map(ast.unparse, parts))
            self.events.append(inner)
            self.block(s.orelse)
        elif not isinstance(s, ast.Pass):
            raise ValueError(f"{ast.unparse(s)}: no template has this")

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
        key = ast.unparse(node)
        self.asked[key] = self.answers.get(key, False)
        return self.asked[key]

    def value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            if node.id not in FIXED:
                self.events.append(node.id)
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
            self.value(node.left)
            left = node.left
            for op, right in zip(node.ops, node.comparators, strict=True):
                self.value(right)
                key = ast.unparse(ast.Compare(left, [op], [right]))
                self.asked[key] = self.answers.get(key, False)
                if not self.asked[key]:
                    return
                left = right
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            self.value(node.generators[0].iter)
            later = (node.elt, *node.generators[0].ifs)
            self.events.append("for " + " ".join(map(ast.unparse, (node.generators[0].target, *later))))
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)


def _ways(
    template: Template, leaving: frozenset[str], known: dict[Event, bool]
) -> Iterator[dict[Event, bool]]:
    """Every way the conditions of a template may turn out."""
    pending: list[dict[Event, bool]] = [known]
    while pending:
        answers = pending.pop()
        run = _Run(answers, leaving)
        run.block(template.body)
        new = [k for k in run.asked if k not in answers]
        if not new:
            yield answers
        else:
            pending += [{**answers, new[0]: value} for value in (True, False)]


def _events(template: Template, answers: dict[Event, bool], leaving: frozenset[str]) -> list[Event]:
    run = _Run(answers, leaving)
    run.block(template.body)
    return run.events


def duties(before: Template, after: Template, leaving: frozenset[str], known: dict[Event, bool]) -> Duties:
    """What a rule with these templates has to show, on every way through either. `known` are conditions of
    which the rule says how they turn out."""
    total, pure, apart = set[Event](), set[Event](), set[tuple[Event, Event]]()
    ways = [*_ways(before, leaving, known), *_ways(after, leaving, known)]
    joint = [{**a, **b} for a in ways for b in ways if all(a[k] == b[k] for k in a.keys() & b.keys())]
    for answers in joint:
        old, new = _events(before, answers, leaving), _events(after, answers, leaving)
        if old == new:
            continue
        total |= set(old) ^ set(new)
        pure |= {e for e in set(old) & set(new) if old.count(e) != new.count(e)}
        both = [e for e in dict.fromkeys(old) if e in new]
        for a, b in combinations(both, 2):
            if not (_precedes(old, a, b) and _precedes(new, a, b)):
                apart.add((a, b))
    return Duties(frozenset(total), frozenset(pure), frozenset(apart))


def _precedes(events: list[Event], a: Event, b: Event) -> bool:
    """Whether every occurrence of one comes before every occurrence of the other."""
    return len(events) - events[::-1].index(a) - 1 < events.index(b)
