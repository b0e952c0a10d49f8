"""Properties of a contract, evaluated in the sandbox by programs made of the contract's own code.

The judge of a result never shares a process with the program that made it, and only ever sees plain data.
Results travel to it as texts and are decoded there, not here. What depends on no program (references,
readings, which calls a property speaks about) is computed once.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from skyt.contracts.contract import Contract, EntryPoint, Property
from skyt.contracts.domain import Call, bound
from skyt.oracle.constraints import rules_for
from skyt.sandbox.job import EncodedCalls, Limits, encode_calls, pass_on, spread
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, same

_Question = tuple[str, str]  # setup and expression
_JUDGE = EntryPoint(kind="function", name="judge")
_Row = tuple[
    tuple[Any, ...], tuple[CallResult, ...]
]  # values of ours, and results that are passed on as texts


@dataclass(frozen=True)
class Violation:
    """A property that one call breaks."""

    index: int
    name: str
    expected: str
    certain: bool = True  # whether the reference gave an answer that can be compared


class Properties:
    """The properties of one contract on one list of calls."""

    def __init__(
        self, contract: Contract, calls: Sequence[Call], pool: SandboxPool, raising: Set[int] = frozenset()
    ) -> None:
        self._contract, self._calls, self._pool = contract, calls, pool
        self._limits = pool.limits.lasting(contract.oracle.seconds)
        properties = contract.oracle.properties
        self._raising = raising  # calls that must raise: no expression speaks about them
        self._answered = [prop for prop in properties if prop.holds is None]
        self._judged = [prop for prop in properties if prop.holds is not None and prop.then is None]
        self._followed = [prop for prop in properties if prop.then is not None]

    @cached_property
    def _encoded(self) -> EncodedCalls:
        return encode_calls(self._calls)

    @cached_property
    def _answers(self) -> dict[tuple[str, str], list[CallResult]]:
        """What each reference and each reading gives, by property and reading."""
        return {
            (prop.name, reading): self._pool.run(
                source,
                self._contract.entry_point,
                self._encoded,
                self._limits,
                equality=self._contract.equality,
            )
            for prop in self._answered
            for reading, source in _sources(prop).items()
        }

    @cached_property
    def _applies(self) -> dict[str, list[bool]]:
        """Which calls each property speaks about."""
        limited = [prop for prop in self._contract.oracle.properties if prop.when is not None]
        everywhere = [True] * len(self._calls)
        applies = {prop.name: everywhere for prop in self._contract.oracle.properties}
        if limited:
            questions = [(prop.setup, prop.when or "") for prop in limited]
            answers = self._ask(questions, (), ((self._row(call), ()) for call in self._calls))
            for column, prop in enumerate(limited):
                applies[prop.name] = [answer[column] for answer in answers]
        return applies

    def first_violation(self, code: str, results: Sequence[CallResult]) -> Violation | None:
        """The first property that fails and the first call it fails on, given the results for all calls."""
        for prop in self._answered:
            if violation := self._against_answers(prop, results):
                return violation
        return self._against_expressions(code, results) if self._judged or self._followed else None

    def _against_answers(self, prop: Property, results: Sequence[CallResult]) -> Violation | None:
        """No violation if one reading is followed everywhere; else the one that is followed furthest."""
        applies = self._applies[prop.name]
        furthest: Violation | None = None
        for reading in _sources(prop):
            answers = self._answers[prop.name, reading]
            wrong = next(
                (i for i, result in enumerate(results) if applies[i] and not self._equal(answers[i], result)),
                None,
            )
            if wrong is None:
                return None
            if furthest is None or wrong > furthest.index:
                furthest = Violation(wrong, prop.name, answers[wrong].show(), answers[wrong].comparable)
        return furthest

    def _equal(self, answer: CallResult, result: CallResult) -> bool:
        equality = self._contract.equality
        if self._contract.oracle.mutates_arguments and result.kind == "value":
            return same(replace(answer, args_after=""), replace(result, args_after=""), equality)
        return same(answer, result, equality)

    def _against_expressions(self, code: str, results: Sequence[CallResult]) -> Violation | None:
        """All expressions in one go; those with `then` need a second round of calls to the program."""
        for index, result in enumerate(results):
            if result.kind != "value" and index not in self._raising:
                return Violation(index, (self._judged or self._followed)[0].name, "a value")
        rows: list[_Row] = [
            (self._row(call), (result,)) for call, result in zip(self._calls, results, strict=True)
        ]
        if self._judged:
            answers = self._ask([(prop.setup, prop.holds or "") for prop in self._judged], ("result",), rows)
            for column, prop in enumerate(self._judged):
                for index, answer in enumerate(answers):
                    if self._applies[prop.name][index] and index not in self._raising and not answer[column]:
                        return Violation(index, prop.name, f"a result for which {prop.holds}")
        for prop in self._followed:
            chosen = [
                i for i, applies in enumerate(self._applies[prop.name]) if applies and i not in self._raising
            ]
            if chosen and (violation := self._again(prop, code, chosen, [rows[i] for i in chosen])):
                return violation
        return None

    def _again(self, prop: Property, code: str, chosen: list[int], rows: list[_Row]) -> Violation | None:
        """Call the program with the arguments that `then` gives and judge both results together."""
        names = self._names("result")
        program = _program([(prop.setup, f"tuple({prop.then})")], names, "return asked[0]")
        arguments = self._pool.run(program, _JUDGE, pass_on(rows), self._limits)
        for index, given in zip(chosen, arguments, strict=True):
            if given.kind != "value" or not given.text.startswith('{"t":'):
                return Violation(index, prop.name, f"a result for which {prop.then} can be computed")
        contract = self._contract
        outcomes = self._pool.run(
            code,
            contract.entry_point,
            spread(arguments),
            self._limits,
            equality=contract.equality,
            rules=rules_for(contract.constraints),
        )
        for index, outcome in zip(chosen, outcomes, strict=True):
            if outcome.kind != "value":
                return Violation(index, prop.name, f"a call with {prop.then} that returns a value")
        judged = [(values, (*given, again)) for (values, given), again in zip(rows, outcomes, strict=True)]
        verdicts = self._ask([(prop.setup, prop.holds or "")], ("result", "again"), judged)
        for index, verdict in zip(chosen, verdicts, strict=True):
            if not verdict[0]:
                return Violation(index, prop.name, f"a result for which {prop.holds} (again: {prop.then})")
        return None

    def _ask(
        self, questions: list[_Question], names: tuple[str, ...], rows: Iterable[_Row]
    ) -> list[list[bool]]:
        return _asked(questions, self._names(*names), rows, self._pool, self._limits)

    def _names(self, *names: str) -> str:
        return _parameter_names(self._contract, *names)

    def _row(self, call: Call) -> tuple[Any, ...]:
        return _arguments(self._contract, call)


def admitted(contract: Contract, calls: Sequence[Call], pool: SandboxPool) -> list[bool]:
    """Whether the precondition of the contract is true of each call."""
    if contract.domain.where is None or not calls:
        return [True] * len(calls)
    question = (contract.domain.setup, contract.domain.where)
    rows: list[_Row] = [(_arguments(contract, call), ()) for call in calls]
    limits = pool.limits.lasting(contract.oracle.seconds)
    return [answer[0] for answer in _asked([question], _parameter_names(contract), rows, pool, limits)]


def _parameter_names(contract: Contract, *more: str) -> str:
    operations = ["operations"] if contract.entry_point.kind == "class" else []
    return ", ".join([*contract.domain.parameters, *operations, *more])


def _arguments(contract: Contract, call: Call) -> tuple[Any, ...]:
    if call.operations is None:
        return bound(contract, call)
    return (*bound(contract, call), [(op.method, op.args) for op in call.operations])


def _asked(
    questions: list[_Question], names: str, rows: Iterable[_Row], pool: SandboxPool, limits: Limits
) -> list[list[bool]]:
    """Whether each expression is True for each row; all no where the judge gave no answer."""
    program = _program(questions, names, "return ''.join('01'[a is True] for a in asked)")
    answers = pool.run(program, _JUDGE, pass_on(rows), limits)
    blank = [False] * len(questions)
    return [
        [digit == "1" for digit in answer.text.strip('"')] if answer.kind == "value" else blank
        for answer in answers
    ]


def _program(questions: list[_Question], parameters: str, answer: str) -> str:
    """A program that asks questions about its arguments; `answer` says what it makes of the list `asked`."""
    parts = [_question(i, setup, text, parameters) for i, (setup, text) in enumerate(questions)]
    asked = ", ".join(f"_question_{i}({parameters})" for i in range(len(questions)))
    return "\n".join([*parts, f"def judge({parameters}):\n    asked = [{asked}]\n    {answer}\n"])


def _question(number: int, setup: str, expression: str, parameters: str) -> str:
    """An expression as a function with its own setup; an error in it is a plain no."""
    answer = textwrap.indent(f"({textwrap.dedent(expression).strip()}\n)", " " * 12)
    return (
        f"def _make_{number}():\n"
        f"{textwrap.indent(setup, '    ')}\n"
        f"    def ask({parameters}):\n"
        f"        try:\n"
        f"            return {answer.strip()}\n"
        f"        except Exception:\n"
        f"            return False\n"
        f"    return ask\n"
        f"_question_{number} = _make_{number}()"
    )


def _sources(prop: Property) -> dict[str, str]:
    if prop.reference is not None:
        return {"": prop.reference}
    return prop.readings or {}
