"""Properties of a contract, evaluated in the sandbox by programs made of the contract's own code.

The judge of a result never shares a process with the program that made it, and only ever sees plain data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from skyt.contract import Contract, EntryPoint, Property
from skyt.domain import Call
from skyt.sandbox.pool import EncodedCalls, SandboxPool, encode_calls
from skyt.sandbox.results import CallResult, same

_JUDGE = EntryPoint(kind="function", name="judge")


@dataclass(frozen=True)
class Violation:
    """A property that one call breaks."""

    index: int
    name: str
    expected: str


class Properties:
    """The properties of one contract on a list of calls; what depends on no program is computed once."""

    def __init__(self, contract: Contract, calls: Sequence[Call], pool: SandboxPool) -> None:
        self._contract, self._calls, self._pool = contract, calls, pool

    @cached_property
    def _encoded(self) -> EncodedCalls:
        return encode_calls(self._calls)

    @cached_property
    def _answers(self) -> dict[tuple[str, str], list[CallResult]]:
        """What each reference and each reading gives, by property and reading."""
        answers = {}
        for prop in self._contract.oracle.properties:
            for reading, source in _sources(prop).items():
                answers[prop.name, reading] = self._pool.run(
                    source, self._contract.entry_point, self._encoded
                )
        return answers

    @cached_property
    def _applies(self) -> dict[str, list[bool]]:
        """Which calls each property speaks about."""
        everywhere = [True] * len(self._calls)
        return {
            prop.name: everywhere if prop.when is None else self._ask(prop, prop.when, self._calls, {})
            for prop in self._contract.oracle.properties
        }

    def first_violation(self, code: str, results: Sequence[CallResult]) -> Violation | None:
        """The first call on which a property fails, given the program's results for all calls."""
        for prop in self._contract.oracle.properties:
            applies = self._applies[prop.name]
            if prop.holds is None:
                violation = self._against_answers(prop, results, applies)
            else:
                violation = self._against_expression(prop, code, results, applies)
            if violation is not None:
                return violation
        return None

    def _against_answers(
        self, prop: Property, results: Sequence[CallResult], applies: list[bool]
    ) -> Violation | None:
        """No violation if one reading is followed everywhere; else where the most faithful one is left."""
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
                furthest = Violation(wrong, prop.name, answers[wrong].show())
        return furthest

    def _equal(self, answer: CallResult, result: CallResult) -> bool:
        if self._contract.oracle.mutates_arguments and result.kind == "value":
            return result.comparable and answer.text == result.text
        return same(answer, result)

    def _against_expression(
        self, prop: Property, code: str, results: Sequence[CallResult], applies: list[bool]
    ) -> Violation | None:
        chosen = [i for i, use in enumerate(applies) if use]
        values = []
        for i in chosen:
            try:
                values.append(results[i].value)
            except ValueError:
                return Violation(i, prop.name, "a value")
        calls = [self._calls[i] for i in chosen]
        extra = {"result": values}
        if prop.then is not None:
            follow_ups = self._pool.run(
                self._program(prop, prop.then, extra), _JUDGE, self._questions(calls, extra)
            )
            again = [Call(tuple(answer.value)) for answer in follow_ups]
            outcomes = self._pool.run(code, self._contract.entry_point, again)
            extra["again"] = []
            for i, outcome in zip(chosen, outcomes, strict=True):
                try:
                    extra["again"].append(outcome.value)
                except ValueError:
                    return Violation(i, prop.name, f"a second call with {prop.then} that returns")
        verdicts = self._ask(prop, prop.holds or "", calls, extra)
        for i, holds in zip(chosen, verdicts, strict=True):
            if not holds:
                return Violation(i, prop.name, f"a result for which {prop.holds}")
        return None

    def _ask(
        self, prop: Property, expression: str, calls: Sequence[Call], extra: dict[str, list[object]]
    ) -> list[bool]:
        answers = self._pool.run(
            self._program(prop, expression, extra), _JUDGE, self._questions(calls, extra)
        )
        return [answer.kind == "value" and answer.text == "true" for answer in answers]

    def _program(self, prop: Property, expression: str, extra: dict[str, list[object]]) -> str:
        names = ", ".join([*self._contract.domain.parameters, *extra])
        as_value = "bool" if expression is not prop.then else "list"
        body = textwrap.indent(f"return {as_value}(\n{expression.strip()}\n)", "    ")
        return f"{prop.setup}\ndef judge({names}):\n{body}\n"

    def _questions(self, calls: Sequence[Call], extra: dict[str, list[object]]) -> EncodedCalls:
        columns = list(extra.values())
        return encode_calls(
            Call((*call.args, *(column[i] for column in columns))) for i, call in enumerate(calls)
        )


def _sources(prop: Property) -> dict[str, str]:
    if prop.reference is not None:
        return {"": prop.reference}
    return prop.readings or {}
