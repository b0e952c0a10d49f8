"""Tests as the oracle: a program complies if every test passes with the results that it gives.

Tests and program never share a process. A test runs with a table of results in place of the function; where
it makes a call that is not in the table, the program is asked, and the tests run again.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyt.contracts.contract import Contract, EntryPoint
from skyt.oracle.constraints import rules_for
from skyt.sandbox.job import EncodedCalls
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult
from skyt.text.parsing import parse

_JUDGE = EntryPoint(kind="function", name="judge")
_ROUNDS = 100  # of asking the program
_MOST = 2000  # calls


@dataclass(frozen=True)
class FailedTest:
    """A test that does not pass, and why, in words."""

    test: str
    why: str


def failed_test(contract: Contract, code: str, pool: SandboxPool) -> FailedTest | None:
    """The first test that fails, or None. `code` is a normalised program."""
    limits = pool.limits.lasting(contract.oracle.seconds)
    known: dict[str, tuple[dict[str, Any], CallResult]] = {}
    for _ in range(_ROUNDS):
        rows = [_row(key, result) for key, (_, result) in known.items()]
        (answer,) = pool.run(_program(contract), _JUDGE, _calls([{"args": [rows]}]), limits)
        if answer.kind != "value":
            return FailedTest("the tests", f"did not come to an end: {answer.show()}")
        outcomes = json.loads(answer.text)
        for test, outcome in outcomes:
            if outcome and outcome[0] == "fail":
                return FailedTest(test, outcome[1] or "an assertion does not hold")
        asked = {outcome[1]: outcome for _, outcome in outcomes if outcome}
        if not asked:
            return None if outcomes else FailedTest("the tests", "there are none")
        if len(known) + len(asked) > _MOST:
            return FailedTest("the tests", f"make more than {_MOST} calls")
        calls = [_call(outcome) for outcome in asked.values()]
        results = pool.run(
            code, contract.entry_point, _calls(calls), limits, rules=rules_for(contract.constraints)
        )
        known |= dict(zip(asked, zip(calls, results, strict=True), strict=True))
    return FailedTest("the tests", f"ask for more calls after {_ROUNDS} rounds")


def test_names(source: str) -> list[str]:
    """The tests of a source: functions called test_…, and methods of classes called Test…."""
    names = []
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names.append(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inside = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            names += [f"{node.name}.{part.name}" for part in inside if part.name.startswith("test")]
    return names


def _program(contract: Contract) -> str:
    """The judge: the tests, with the function under test replaced by what is known of it."""
    shim = Path(__file__).with_name("shim.py").read_text(encoding="utf-8")
    entry, tests = contract.entry_point.name, contract.oracle.tests
    return f"""{shim}
pytest = _Pytest()
{entry} = _tested = _Function()
{tests}
{entry} = _tested

def judge(rows):
    space = globals()
    _tested.known = {{key: (kind, value, after) for key, kind, value, after in rows}}
    cases = _cases(space, {test_names(tests)!r})
    return [[name, list(_outcome(space, *case))] for name, *case in cases]
"""


def _row(key: str, result: CallResult) -> list[Any]:
    """What is known of a call, as the judge reads it: values travel as texts and are decoded there."""
    if result.kind == "value":
        return [key, "value", {"e": result.text}, {"e": result.args_after} if result.args_after else None]
    return [key, result.kind, result.raised or result.show(), None]


def _call(outcome: list[Any]) -> dict[str, Any]:
    """The call that a test asks about; its values stay encoded."""
    _, _, args, kwargs = outcome
    return {"args": args["t"], "kwargs": dict(kwargs["d"])}


def _calls(calls: list[dict[str, Any]]) -> EncodedCalls:
    return EncodedCalls(len(calls), json.dumps(calls, separators=(",", ":")).encode("ascii"))
