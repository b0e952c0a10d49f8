"""The oracle: whether a program does what its contract says.

Compliance is all of these: the program parses and has the entry point, keeps the constraints (in its text and
while it runs), gives the listed results, has the properties on generated in-domain inputs, gives the same
results when the listed calls are made again, at the end and in another process, and follows the policy for
calls outside the domain. The other process runs it as a user would: as the main program, with an unknown hash
seed; there recursion is seen as it happens.
Verdicts are functions of the normalised text, the contract and the versions, and are remembered as such.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from homeostat.core.errors import UserError
from skyt.contracts.contract import Case, Contract
from skyt.contracts.domain import Call
from skyt.contracts.drawing.cache import drawn_with
from skyt.contracts.show import short, show
from skyt.oracle import constraints as static
from skyt.oracle.constraints import rules_for
from skyt.oracle.inputs import inputs, telling
from skyt.oracle.properties import Properties, admitted
from skyt.oracle.testing import failed_test
from skyt.sandbox.job import EncodedCalls, Job, Limits, encode_calls, module_name
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, outcome
from skyt.text.normalise import normalise
from skyt.text.parsing import parse

ORACLE_VERSION = f"7-py{sys.version_info.major}.{sys.version_info.minor}"
_SEED = 0
_PROBE = 48  # calls that are made before the others where there are many: most wrong programs fail them
_DRAWN_APART = 30  # generated calls after which an earlier result must still be what it was
_ALONE = Limits(call_seconds=0.5, cpu_seconds=1.0)  # of a call that is made to shrink a counterexample
_MAIN = "__main__"
_CHECKS = (
    "parses",
    "constraints",
    "run_time_constraints",
    "entry_point",
    "cases",
    "arguments",
    "properties",
    "repeatable",
    "out_of_domain",
)


@dataclass(frozen=True)
class Verdict:
    """Compliant or not, and why not.

    `checks` says how each part went (None: not reached): `constraints` is what the text shows,
    `run_time_constraints` what the sandbox caught while the program ran. `counterexample` is the first call
    that shows a failure, with what was expected and what came. `drawn_with` are the versions on which the
    generated inputs depend.
    """

    compliant: bool
    failures: list[str] = field(default_factory=list)
    counterexample: dict[str, Any] | None = None
    checks: dict[str, bool | None] = field(default_factory=dict)
    drawn_with: str = field(default_factory=drawn_with)

    def to_json(self) -> dict[str, Any]:
        return {
            "compliant": self.compliant,
            "failures": self.failures,
            "counterexample": self.counterexample,
            "checks": self.checks,
            "drawn_with": self.drawn_with,
        }


class Oracle:
    """Checks programs in a sandbox pool. Safe to use from several threads."""

    def __init__(self, pool: SandboxPool) -> None:
        self.pool = pool
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}
        self._exams: dict[str, _Exam] = {}
        self._lock = threading.Lock()

    def check(self, code: str, contract: Contract) -> Verdict:
        """The verdict on one program (raw or normalised text: it is normalised here)."""
        normal = normalise(code)
        if not normal.parsed:
            return Verdict(False, ["is not Python that can be parsed"], checks={"parses": False})
        signature = hashlib.sha256(normal.text.encode("utf-8")).hexdigest()
        key = (ORACLE_VERSION, contract.hash, signature)
        with self._lock:
            known = self._verdicts.get(key)
        if known is None:
            known = self._exam(contract).verdict(normal.text)
            with self._lock:
                known = self._verdicts.setdefault(key, known)
        return known

    def smallest(self, code: str, contract: Contract) -> Verdict:
        """The verdict with its counterexample shrunk to the smallest call that still shows a failure.

        A listed case is shrunk where the properties refuse the program, too. Calls without an end are not
        shrunk, nor is a program that follows no reading everywhere: that is not the fault of one call.
        """
        verdict = self.check(code, contract)
        if verdict.counterexample is None or verdict.checks.get("out_of_domain") is False:
            return verdict
        return self._exam(contract).shrunk(normalise(code).text, verdict)

    def check_many(self, programs: Sequence[tuple[str, Contract]]) -> list[Verdict]:
        """Verdicts on many programs, in order, on all workers; equal programs are checked once."""
        normal = {code: normalise(code).text for code in dict.fromkeys(code for code, _ in programs)}
        contracts = {contract.hash: contract for _, contract in programs}
        keys = [(normal[code], contract.hash) for code, contract in programs]
        distinct = list(dict.fromkeys(keys))
        with ThreadPoolExecutor(self.pool.workers) as threads:
            verdicts = threads.map(lambda key: self.check(key[0], contracts[key[1]]), distinct)
            known = dict(zip(distinct, verdicts, strict=True))
        return [known[key] for key in keys]

    def _exam(self, contract: Contract) -> _Exam:
        with self._lock:
            if contract.hash not in self._exams:
                self._exams[contract.hash] = _Exam(contract, self.pool)
            return self._exams[contract.hash]


class _Exam:
    """The calls of one contract's oracle and what is known of them, prepared once."""

    def __init__(self, contract: Contract, pool: SandboxPool, only: int | None = None) -> None:
        self.contract, self.pool = contract, pool
        self.limits = pool.limits.lasting(contract.oracle.seconds)
        offered = {*pool.modules, static.ANYTHING}
        absent = [name for name in contract.constraints.imports if name not in offered]
        if absent:
            raise UserError(
                f"contract {contract.id!r} allows imports that the sandbox does not have: "
                f"{', '.join(absent)}; it has {', '.join(pool.modules)}"
            )
        spec = contract.oracle
        self.cases = [Call.of(case) for case in spec.cases]
        self.outside = [] if only else [Call.of(case) for case in contract.out_of_domain.calls]
        listed = [Call.of(given) for given in spec.inputs]
        listed = listed if only is None else telling(listed, only)
        drawn = inputs(contract, spec.generated, _SEED, pool) if spec.generated and not only else []
        self.listed = [*self.cases, *listed]
        self.inside = [*self.listed, *drawn]
        if not self.inside and not spec.tests:
            raise UserError(
                f"contract {contract.id!r}: domain.where is true of no call that was drawn; "
                f"give narrower types, or `oracle.inputs`"
            )
        some = min(_PROBE, len(listed) // 2)
        self.probe = _Exam(contract, pool, some) if not only and some > 8 else None
        raising = {i for i, case in enumerate(spec.cases) if case.raises is not None}
        self.properties = Properties(contract, self.inside, pool, raising)
        # Listed cases first and again at the end: a program must not remember.
        self.calls = [*self.inside, *self.outside, *self.cases]
        self.encoded: EncodedCalls = encode_calls(self.calls)
        drawn = self.inside[len(self.cases) :][:_DRAWN_APART]
        self.again: EncodedCalls = encode_calls([*self.cases[::-1], *self.cases, *drawn])

    def verdict(self, text: str) -> Verdict:
        """Examine one normalised program, the cheap checks first; the first failing part ends it."""
        checks: dict[str, bool | None] = {**dict.fromkeys(_CHECKS), "parses": True}
        entry = self.contract.entry_point

        def fail(check: str, failures: list[str], example: dict[str, Any] | None = None) -> Verdict:
            checks[check] = False
            return Verdict(False, failures, example, checks)

        if broken := static.violations(parse(text), entry, self.contract.constraints):
            return fail("constraints", broken)
        checks["constraints"] = True
        if self.probe is not None and not (early := self.probe.verdict(text)).compliant:
            return early
        results = (
            []
            if not self.calls
            else self.pool.run(
                text,
                entry,
                self.encoded,
                self.limits,
                equality=self.contract.equality,
                rules=rules_for(self.contract.constraints),
            )
        )
        caught = next((result for result in results if result.kind == "forbidden"), None)
        if caught is not None:
            return fail("run_time_constraints", [f"at run time: {caught.show()}"])
        checks["run_time_constraints"] = True
        if results and results[0].kind == "unloaded":
            return fail("entry_point", [f"{entry.kind} {entry.name}: {results[0].text}"])
        checks["entry_point"] = True

        parts: tuple[tuple[str, Callable[[str, list[CallResult]], _Problem | None]], ...] = (
            ("cases", self._failing_case),
            ("arguments", self._changed_arguments),
            ("properties", self._violation),
            ("repeatable", self._unrepeatable),
            ("out_of_domain", self._outside_policy),
        )
        for check, examine in parts:
            problem = examine(text, results)
            if problem is not None:
                line, example = _told(problem, self.calls[problem.index], results, self.contract)
                return fail(check, [line], example)
            checks[check] = True
        if self.contract.oracle.tests:
            failed = failed_test(self.contract, text, self.pool)
            if failed is not None:
                return fail("tests", [f"{failed.test} fails: {short(failed.why)}"])
            checks["tests"] = True
        elsewhere = self._elsewhere(text) if self.cases else None
        if elsewhere is not None:
            return fail(*elsewhere)
        if too_much := self._reads_too_much(text):
            return fail("run_time_constraints", [f"at run time: {too_much}"])
        return Verdict(True, [], None, checks)

    def _elsewhere(self, text: str) -> tuple[str, list[str], dict[str, Any] | None] | None:
        """What goes wrong when the listed calls are made in other processes, last first and then again: where
        the program is run by a user, and where it is imported."""
        contract, rule = self.contract, self.contract.constraints.recursion
        rules = rules_for(contract.constraints)
        again = Job(text, contract.entry_point, self.again, contract.equality, rules, apart=True)
        again = replace(again, watched=rule != "any")
        cases = contract.oracle.cases
        for module in (_MAIN, module_name(text, "imported")):
            *results, seen = self.pool.run_job(replace(again, module=module), self.limits)
            if module == _MAIN and results[0].kind == seen.kind != "value":
                continue  # a main part that fails is none of the function's
            for index, case in enumerate((*cases[::-1], *cases)):
                if not _gives(case, contract, results[index]):
                    problem = _Problem(
                        index, _promise(case, contract), "listed case, made in another process"
                    )
                    line, example = _told(problem, Call.of(case), results, contract)
                    return "repeatable", [line], example
            if '"changed",true' in seen.text:
                return "repeatable", ["a result changes after it was given"], None
        if rule != "any" and ('"recursed",true' in seen.text) != (rule == "required"):
            what = "recursion is required, and none happens" if rule == "required" else "calls itself"
            return "run_time_constraints", [f"at run time: {what}"], None
        return None

    def _reads_too_much(self, text: str) -> str:
        """What the first listed call does that reads more elements of its lists than the contract allows."""
        contract, most = self.contract, self.contract.constraints.reads
        if most is None:
            return ""
        job = Job(text, contract.entry_point, encode_calls(self.listed), reads=True)
        for call, result in zip(self.listed, self.pool.run_job(job, self.limits), strict=True):
            if result.kind != "raise" and not (result.text.isdigit() and int(result.text) <= most):
                shown = short(call.show(contract.entry_point.name))
                return f"{shown} reads {result.show()} elements of its lists; {most} are allowed"
        return ""

    def shrunk(self, text: str, verdict: Verdict) -> Verdict:
        from skyt.contracts.drawing.smaller import smallest, weight

        given = Call.from_json((verdict.counterexample or {})["call"])
        smaller = [call for call in self.inside if weight(call) <= weight(given)]
        start = self._first_failing(text, sorted(smaller, key=weight)) or given
        if self._alone(text, start) is None:
            return verdict
        found = smallest(self.contract, start, lambda call: self._alone(text, call) is not None)
        failing = self._alone(text, found)
        return (
            verdict if failing is None else replace(verdict, failures=[failing[0]], counterexample=failing[1])
        )

    def _first_failing(self, text: str, calls: list[Call]) -> Call | None:
        """The first of these calls on which a program fails, all made to it in one process."""
        contract, pool = self.contract, self.pool
        rules, equality = rules_for(contract.constraints), contract.equality
        results = pool.run(text, contract.entry_point, calls, equality=equality, rules=rules)
        if not contract.oracle.mutates_arguments:
            changed = next((i for i, result in enumerate(results) if result.args_after), None)
            if changed is not None:
                return calls[changed]
        violation = Properties(contract, calls, pool).first_violation(text, results) if calls else None
        return None if violation is None else calls[violation.index]

    def _alone(self, text: str, call: Call) -> tuple[str, dict[str, Any]] | None:
        """What a program does wrong when it gets only this call, in a line and as a counterexample."""
        contract, pool = self.contract, self.pool
        if not admitted(contract, [call], pool)[0]:
            return None
        rules, equality = rules_for(contract.constraints), contract.equality
        results = pool.run(text, contract.entry_point, [call], _ALONE, equality=equality, rules=rules)
        if results[0].kind not in ("value", "raise"):
            return None
        if results[0].args_after and not contract.oracle.mutates_arguments:
            return _told(_Problem(0, "unchanged arguments", "changes its arguments"), call, results, contract)
        violation = Properties(contract, [call], pool).first_violation(text, results)
        if violation is None or not violation.certain:
            return None
        problem = _Problem(0, violation.expected, f"property '{violation.name}'")
        return _told(problem, call, results, contract)

    def _failing_case(self, _text: str, results: list[CallResult]) -> _Problem | None:
        for index, case in enumerate(self.contract.oracle.cases):
            if not _gives(case, self.contract, results[index]):
                return _Problem(index, _promise(case, self.contract), "listed case")
        return None

    def _changed_arguments(self, _text: str, results: list[CallResult]) -> _Problem | None:
        if not self.contract.oracle.mutates_arguments:
            for index, result in enumerate(results[: len(self.inside)]):
                if result.args_after:
                    return _Problem(index, "unchanged arguments", "changes its arguments")
        return None

    def _violation(self, text: str, results: list[CallResult]) -> _Problem | None:
        inside = results[: len(self.inside)]
        for index, result in enumerate(inside):
            if result.kind in ("timeout", "crash", "unrun"):
                return _Problem(index, "a result", "generated input")
        violation = self.properties.first_violation(text, inside)
        if violation is None:
            return None
        return _Problem(violation.index, violation.expected, f"property '{violation.name}'")

    def _unrepeatable(self, _text: str, results: list[CallResult]) -> _Problem | None:
        offset = len(self.calls) - len(self.cases)
        for index, case in enumerate(self.contract.oracle.cases):
            if not _gives(case, self.contract, results[offset + index]):
                expected = _promise(case, self.contract)
                return _Problem(offset + index, expected, "listed case, made again at the end")
        return None

    def _outside_policy(self, _text: str, results: list[CallResult]) -> _Problem | None:
        rules = self.contract.out_of_domain
        for offset, case in enumerate(rules.calls[: len(self.outside)]):
            result = results[len(self.inside) + offset]
            if rules.policy == "raises":
                kept = result.raised in rules.exceptions
                promise = " or ".join(rules.exceptions)
            else:
                kept, promise = _gives(case, self.contract, result), _promise(case, self.contract)
            if not kept:
                return _Problem(len(self.inside) + offset, promise, "call outside the domain")
        return None


@dataclass(frozen=True)
class _Problem:
    index: int
    expected: str
    why: str


def _told(
    problem: _Problem, call: Call, results: list[CallResult], contract: Contract
) -> tuple[str, dict[str, Any]]:
    """A problem in a line for people, and as the counterexample of a verdict."""
    shown, got = call.show(contract.entry_point.name), results[problem.index].show()
    example = {"call": call.to_json(), "shown": shown, "expected": problem.expected, "got": got}
    expected = short(problem.expected.removeprefix("raises "))
    return f"{problem.why}: {short(shown)} {outcome(short(got))}, expected {expected}", example


def _gives(case: Case, contract: Contract, result: CallResult) -> bool:
    if case.raises is not None:
        return result.raised == case.raises
    return result.kind == "value" and contract.equality.equal(result.text, contract.promised(_returns(case)))


def _returns(case: Case) -> Any:
    return case.returns if case.operations is None else [op.returns for op in case.operations]


def _promise(case: Case, contract: Contract) -> str:
    return f"raises {case.raises}" if case.raises is not None else show(contract.promised(_returns(case)))
