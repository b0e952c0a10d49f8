"""Order of evaluation: what a rule moves, drops or repeats, found from its two templates alone.

A template is executed symbolically, once for every way its conditions may turn out. That gives the sequence
of things that happen on that way. Where the sequences of before and after differ, the rule may only be
applied to what bears it: what is dropped or added must not be noticed, what is repeated must give the same
again, what changes places must commute, and what goes into or out of a loop must not be noticed, nor be
changed by the loop. The engine asks the analysis about exactly these at every match.

Of a loop one round is executed: a way ends where the next round begins. Two loops whose rounds do the same
things in the same order, and which are left in the same way, do the same.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs, operation
from skyt.repair.rules.analysis.raising import UNKNOWN
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, Comprehension, children, walk
from skyt.repair.rules.patterns.template import FIXED, Found, Template, block_name, made, value
from skyt.repair.rules.patterns.when import Condition

# A name of the template; `x =` or `d[k] =` for a store; what an operation does, by its text; a loop; a jump.
Event = str
LOOP = "loop "
DOES = "do "
OPERATIONS = (ast.BinOp, ast.Subscript, ast.Call, ast.Compare, ast.UnaryOp)
JUMPS: dict[type[ast.stmt], str] = {ast.Break: "break", ast.Continue: "continue"}
ENDS = frozenset({*JUMPS.values(), "return", "next round"})


def elements(made: Comprehension) -> list[ast.expr]:
    """What a comprehension evaluates in each round."""
    return [made.key, made.value] if isinstance(made, ast.DictComp) else [made.elt]


class _JumpError(Exception):
    """Control leaves here."""


class Run:
    """One execution of a template, with given answers to its conditions; a KeyError asks for one more."""

    def __init__(self, template: Template, given: Condition, answers: Mapping[Event, bool]) -> None:
        self.given, self.answers = given, answers
        self.lazy = (ast.GeneratorExp, ast.ListComp) if given.lazily else (ast.GeneratorExp,)
        self.events, self.in_loops, self.loops = list[Event](), set[Event](), 0
        try:
            self.block(template.body)
            end = given.end
        except _JumpError as jump:
            end = str(jump)
        if end:
            self.events.append(end)

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self.loops:
            self.in_loops.add(event)

    def block(self, body: Sequence[ast.stmt]) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Expr() if name := block_name(s):
                self._pieces(name)
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assign(targets=targets, value=value):
                self.value(value)
                for target in targets:
                    self.store(target)
            case ast.AugAssign(target=target, op=op, value=value):
                self.value(ast.BinOp(target, op, value))
                self.store(target)
            case ast.If(test=test, body=body, orelse=other):
                self.block(body if self.truth(test) else other)
            case ast.For(iter=made) if isinstance(made, self.lazy):
                self._loop(_rounds(made, [ast.Assign([s.target], made.elt), *s.body], s.orelse))
            case ast.For() | ast.While():
                self._loop(s)
            case ast.Return(value=value):
                self.value(value or ast.Constant(None))
                raise _JumpError("return")
            case ast.Break() | ast.Continue():
                raise _JumpError(JUMPS[s.__class__])
            case ast.Pass():
                pass
            case _:
                raise ValueError(f"{ast.unparse(s)}: no template has this")

    def _pieces(self, name: str) -> None:
        """A name that stands for statements."""
        self.add(name)
        for block, jump in sorted(self.given.jumps):
            if block == name and self.answers[f"{name} leaves by {jump}"]:
                raise _JumpError(jump)
        if name in self.given.leaving:
            raise _JumpError

    def _loop(self, s: ast.For | ast.While) -> None:
        if isinstance(s, ast.For):
            self.value(s.iter)
        self.events.append(f"{LOOP}{self.loops}")
        self.loops += 1
        if not (self.answers[self._round()] if isinstance(s, ast.For) else self.truth(s.test)):
            return self.block(s.orelse)
        if isinstance(s, ast.For):
            self.store(s.target)
        try:
            self.block(s.body)
        except _JumpError as jump:
            if str(jump) == "break":
                return None
            if str(jump) != "continue":
                raise
        raise _JumpError("next round")

    def _round(self) -> Event:
        """The condition that the latest loop goes on."""
        return f"round of {LOOP}{self.loops}"

    def truth(self, node: ast.expr) -> bool:
        decided = self.value(node)
        if isinstance(decided, bool):
            return decided
        counts = any(isinstance(n, ast.Name) and n.id in self.given.own for n in walk(decided))
        return self.answers[self._round() if counts else ast.unparse(decided)]

    def store(self, target: ast.expr) -> None:
        event = f"{ast.unparse(target)} ="
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self.store(part)
        elif ast.unparse(target) in self.given.own:
            self.in_loops.add(event)
        elif not isinstance(target, ast.Constant):
            self.add(event)

    def value(self, node: ast.AST) -> bool | ast.AST:
        """What is evaluated; whether the result is true, or the expression whose truth decides that."""
        match node:
            case ast.Constant(value=value):
                return bool(value)
            case ast.Name(id=name):
                if name not in FIXED and name not in self.given.own:
                    self.add(name)
            case ast.BoolOp(op=op, values=[*first, last]):
                decisive = isinstance(op, ast.Or)
                return decisive if any(self.truth(v) is decisive for v in first) else self.value(last)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self.truth(test) else other)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.truth(operand)
            case ast.Compare(left=left, ops=[op, _], comparators=[middle, right]):
                if self.truth(ast.Compare(left, [op], [middle])):
                    self.value(right)
            case ast.Call(func=consumer, args=[made]) if isinstance(made, COMPREHENSIONS):
                self.value(consumer)
                self._consumed(made, getattr(consumer, "id", ""))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._consumed(node)
            case _:
                for child in children(node):
                    self.value(child)
                if isinstance(node, OPERATIONS) and not self._is_own(node):
                    self.add(DOES + ast.unparse(node))
        return node

    def _is_own(self, node: ast.expr) -> bool:
        """Whether something is about what is the rule's business alone; None stands for a new variable."""
        own = {*self.given.own, "None"}
        return any(isinstance(n, ast.expr) and ast.unparse(n) in own for n in walk(node))

    def _consumed(self, made: Comprehension, by: str = "") -> None:
        """A comprehension and what uses it up; `any` and `all` leave it at the first element that decides."""
        leave: list[ast.stmt] = [ast.Break()] if isinstance(made, ast.GeneratorExp) else []
        step: list[ast.stmt] = [ast.Assign([], element) for element in elements(made)]
        if by in {"any", "all"}:
            then, other = (leave, []) if by == "any" else ([], leave)
            step = [ast.If(elements(made)[0], then, other)]
        self._loop(_rounds(made, step))


def _rounds(made: Comprehension, step: list[ast.stmt], other: Sequence[ast.stmt] = ()) -> ast.For:
    """The loop that does something with each element of a comprehension."""
    only = made.generators[0]
    test = ast.BoolOp(ast.And(), [*only.ifs, ast.Constant(True)])
    return ast.For(only.target, only.iter, [ast.If(test, step, [])], [*other])


@dataclass
class Duties:
    """What must be shown of the pieces that a rule is applied to."""

    total: set[Event] = field(default_factory=set)  # dropped, or evaluated where it was not
    pure: set[Event] = field(default_factory=set)  # repeated
    apart: set[tuple[Event, Event]] = field(default_factory=set)  # changed places
    steady: set[Event] = field(default_factory=set)  # went into or out of a loop
    sooner: set[tuple[Event, Event]] = field(default_factory=set)  # (operation of one side, what is after it)
    rounds: set[Event] = field(default_factory=set, compare=False)  # what happens in the loops

    def compare(self, old: Run, new: Run) -> None:
        """Add what one way through both templates asks for."""
        self.rounds |= old.in_loops | new.in_loops
        if old.events == new.events:
            return
        both = [e for e in dict.fromkeys(old.events) if e in new.events]
        self.total |= {e for e in {*old.events} ^ {*new.events} if not e.startswith((LOOP, DOES))}
        self.pure |= {e for e in both if old.events.count(e) != new.events.count(e)}
        for a, b in combinations(both, 2):
            if all(a not in run.events[run.events.index(b) :] for run in (old, new)):
                continue
            if a.startswith(LOOP) or b.startswith(LOOP):
                self.steady.add(b if a.startswith(LOOP) else a)
            else:
                self.apart.add((a, b))
        moving = {e for e in both if not e.startswith(LOOP)} - ENDS
        for events in (old.events, new.events):  # what raises instead may do so later or sooner
            alone = [i for i, e in enumerate(events) if e.startswith(DOES) and e not in both]
            self.sooner |= {(events[i], e) for i in alone for e in events[i + 1 :] if e in moving}

    def done(self, found: Found, scope: Scope) -> bool:
        """Whether what is moved, dropped and repeated bears it."""
        seen = cache(lambda event: _effects(event, found, scope))
        if not all(seen(e).total for e in self.total | self.steady) or not all(
            seen(e).pure for e in self.pure
        ):
            return False
        if any(disturbs(seen(r), seen(e), scope) for e in self.steady for r in self.rounds):
            return False
        failing = [(Effects(errors=seen(a).errors), b) for a, b in self.sooner if seen(a).raises]
        pairs = [*((seen(a), b) for a, b in self.apart), *failing]
        return not any(conflict(a, seen(b), scope) for a, b in pairs)


def _effects(event: Event, found: Found, scope: Scope) -> Effects:
    if event in found:
        return scope.effects(found[event])
    if event.startswith(DOES):
        return operation(value(event.removeprefix(DOES), **found), scope)
    if event.endswith(" ="):
        return scope.effects(made(f"{event} None", **found)[0].targets[0])  # type: ignore[attr-defined]
    return Effects(errors={UNKNOWN}, jumps=True, other=True)  # a jump, the next round: never moved


def duties(before: Template, after: Template, given: Condition) -> Duties:
    """What a rule with these templates has to show, on every way through both."""
    found, pending = Duties(), [dict(given.known)]
    while pending:
        answers = pending.pop()
        try:
            found.compare(*(Run(template, given, answers) for template in (before, after)))
        except KeyError as question:
            pending += [{**answers, question.args[0]: holds} for holds in (True, False)]
    return found
