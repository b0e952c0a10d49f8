"""Constraints hold against evasion, in the text or at run time, and honest programs stay accepted."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from skyt.contracts.contract import Constraints, Contract, EntryPoint, load_contracts
from skyt.contracts.domain import Call
from skyt.contracts.equality import Equality
from skyt.oracle.constraints import rules_for, violations
from skyt.oracle.oracle import Oracle, Verdict
from skyt.sandbox import CallResult, SandboxPool

OWN = """
def own(a):
    a = list(a)
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            if a[j] < a[i]:
                a[i], a[j] = a[j], a[i]
    return a
"""
H = """
def h(*parts):
    return ''.join(parts)
"""


DATA = Path(__file__).parents[2] / "data"


def _with_helpers(code: str) -> str:
    return (OWN if "own" in code else "") + (H if "h(" in code else "") + code


def _programs(kind: str) -> dict[str, str]:
    listed = yaml.safe_load((DATA / "evasions.yaml").read_text())[kind]
    return {name: _with_helpers(code) for name, code in listed.items()}


KNOWN, WRITTEN, HIDDEN, HONEST = map(_programs, ("known", "written", "hidden", "honest"))
EVASIONS = KNOWN | WRITTEN | HIDDEN
IMPORTS = ("functools", "heapq", "operator", "string", "collections", "dataclasses")


def _contract(program: str) -> Contract:
    """Sort a list. A few programs may import `sys`, too."""
    imports = [*IMPORTS, *(["sys"] if "import sys\n" in program and "typing" not in program else [])]
    return Contract.model_validate({
        "id": "sort_it",
        "prompt": "Sort a list.",
        "entry_point": {"kind": "function", "name": "f", "parameters": [{"name": "a", "type": "list[int]"}]},
        "constraints": {"imports": imports, "forbidden_calls": ["sorted", "sort"]},
        "domain": {"parameters": {"a": {"type": "list", "elements": {"type": "int"}}}},
        "oracle": {
            "cases": [{"args": [[3, 1, 2]], "returns": [1, 2, 3]}, {"args": [[]], "returns": []}],
            "properties": [{"name": "sorted", "reference": "def f(a):\n    return sorted(a)"}],
            "generated": 20,
        },
    })  # fmt: skip


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with SandboxPool(workers=1) as pool:
        yield Oracle(pool)


def test_there_are_forty_evasions_beyond_the_known_ones() -> None:
    assert len(WRITTEN | HIDDEN) >= 40


@pytest.mark.parametrize("name", EVASIONS)
def test_evasion_is_refused(name: str, oracle: Oracle) -> None:
    verdict = oracle.check(EVASIONS[name], _contract(EVASIONS[name]))
    assert not verdict.compliant
    assert _caught_by(verdict) == ("run time" if name in HIDDEN else "text"), verdict.failures
    assert "which the contract does not allow" in verdict.failures[0]
    assert verdict.failures[0].startswith("at run time: ") == (name in HIDDEN)


@pytest.mark.parametrize("name", [*KNOWN, *WRITTEN])
def test_evasion_in_the_text_is_caught_at_run_time_too_if_it_happens(
    name: str, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyt.oracle.constraints.violations", lambda *_: [])
    verdict = Oracle(oracle.pool).check(EVASIONS[name], _contract(EVASIONS[name]))
    harmless = {  # references that are never used, or lead nowhere at run time
        "import behind a condition", "loader", "string of a way out",
    }  # fmt: skip
    assert verdict.compliant == (name in harmless), verdict.failures


@pytest.mark.parametrize("name", HONEST)
def test_honest_program_is_accepted(name: str, oracle: Oracle) -> None:
    verdict = oracle.check(HONEST[name], _contract(HONEST[name]))
    assert verdict.failures == []
    assert verdict.compliant


OTHERWISE = {
    (file, contract, name): code
    for file in ("evasions_of_the_test", "evasions_by_other_ways")
    for contract, programs in yaml.safe_load((DATA / f"{file}.yaml").read_text()).items()
    for name, code in programs.items()
}


@pytest.mark.parametrize("key", OTHERWISE, ids=": ".join)
def test_a_program_that_evades_its_contract_or_does_well_only_while_it_is_tested_is_refused(
    key: tuple[str, str, str], oracle: Oracle
) -> None:
    code, contract = OTHERWISE[key], load_contracts().get(key[1])
    assert not oracle.check(_with_helpers(code), contract or _contract(code)).compliant


def test_there_are_sixty_evasions_of_the_test_and_seventy_by_other_ways() -> None:
    files = [file for file, *_ in OTHERWISE]
    assert files.count("evasions_of_the_test") >= 60
    assert files.count("evasions_by_other_ways") >= 70


def test_the_shared_evasions_are_refused(oracle: Oracle, shared_data: Path) -> None:
    rows = map(json.loads, (shared_data / "red_team" / "evasions.jsonl").read_text().splitlines())
    contracts = load_contracts()
    assert [r["name"] for r in rows if oracle.check(r["code"], contracts[r["contract"]]).compliant] == []


SEARCHES = {
    "slices": """
def binary_search(items, target):
    if not items:
        return -1
    mid = len(items) // 2
    if items[mid] > target:
        return binary_search(items[:mid], target)
    if items[mid] == target:
        return mid
    found = binary_search(items[mid + 1 :], target)
    return -1 if found < 0 else mid + 1 + found
""",
    "the library": """
import bisect
def binary_search(items, target):
    at = bisect.bisect_left(items, target)
    return at if at < len(items) and items[at] == target else -1
""",
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_reads_few_elements_is_accepted(name: str, oracle: Oracle) -> None:
    assert oracle.check(SEARCHES[name], load_contracts()["binary_search"]).failures == []


@pytest.mark.parametrize(
    "code",
    [
        "def reverse_string(s):\n    return s[::-1]\nif __name__ == '__main__':\n    print(input())",
        "def reverse_string(s):\n    return s[::-1]\nif __name__ == '__main__':\n    print(open('x').read())",
        "def reverse_string(s, memory={}):\n    return memory.setdefault(s, s[::-1])",
        "import typing\ndef reverse_string(s: typing.Optional[str]):\n    return s[::-1]",
    ],
)
def test_what_a_main_part_does_and_memory_that_changes_nothing_is_no_evasion(
    code: str, oracle: Oracle
) -> None:
    assert oracle.check(code, load_contracts()["reverse_string"]).failures == []


@pytest.mark.parametrize(
    "code",
    [
        "import datetime\ndef f(a):\n    return datetime.datetime.strptime('2020', '%Y').year",
        "import time\ndef f(a):\n    return time.strptime('2020', '%Y').tm_year",
    ],
)
def test_what_the_library_imports_while_it_is_used_is_there(code: str, oracle: Oracle) -> None:
    rules = rules_for(Constraints(imports=("datetime", "time")))
    (result,) = oracle.pool.run(code, F, [Call((1,))], rules=rules)
    assert result == CallResult("value", "2020")


F = EntryPoint(kind="function", name="f", parameters=())


@pytest.mark.parametrize(
    ("forbidden", "code", "value"),
    [
        ("sort", "def f(a):\n    return sorted(a)", "[1,2,3]"),
        ("sort", "def f(a):\n    return set(a)", '{"s":[1,2,3]}'),
        ("sort", "def f(a):\n    return {3: 1, 1: 2}", '{"d":[[1,2],[3,1]]}'),
        ("set", "def f(a: set):\n    return isinstance(a, (set, list)) and isinstance({1}, set)", "true"),
        ("set", "def f(a) -> set[int]:\n    return {*a}", '{"s":[1,2,3]}'),
        (
            "index",
            "def f(a):\n    index = 0\n    for index in range(2):\n        pass\n    return index",
            "1",
        ),
        ("max", "import heapq\ndef f(a):\n    return heapq.nlargest(1, a)[0]", "3"),
    ],
)
def test_neither_the_harness_nor_the_library_is_held_to_the_rules(
    forbidden: str, code: str, value: str, oracle: Oracle
) -> None:
    constraints = Constraints(imports=("heapq",), forbidden_calls=(forbidden,))
    assert violations(ast.parse(code), F, constraints) == []
    loose = Equality(ordered=False, signed_zero=False)
    (result,) = oracle.pool.run(code, F, [Call(([3, 1, 2],))], equality=loose, rules=rules_for(constraints))
    assert result == CallResult("value", value)


@pytest.mark.parametrize(
    ("forbidden", "code"),
    [
        ("set", "def f(a):\n    return set(a)"),
        ("set", "def f(a):\n    return (lambda kind: kind(a))(set)"),
        ("set", "class S(set):\n    pass\ndef f(a):\n    return S(a)"),
        ("index", "def f(a):\n    return a.index(1)"),
        ("index", "import heapq, operator\ndef f(a):\n    return operator.index(1)"),
        ("gcd", "import math\ndef f(a):\n    return math.gcd(4, 6)"),
        ("gcd", "from math import gcd as g\ndef f(a):\n    return g(4, 6)"),
        ("gcd", "from math import *\ndef f(a):\n    return gcd(4, 6)"),
        ("split", "def f(a):\n    return 'a b'.split()"),
        ("split", "def f(a):\n    return str.split('a b')"),
    ],
)
def test_types_methods_and_library_functions_can_be_forbidden(
    forbidden: str, code: str, oracle: Oracle
) -> None:
    constraints = Constraints(imports=("heapq", "operator", "math"), forbidden_calls=(forbidden,))
    assert len(violations(ast.parse(code), F, constraints)) == 1
    (result,) = oracle.pool.run(code, F, [Call(([3, 1, 2],))], rules=rules_for(constraints))
    assert result.kind == "forbidden"
    assert forbidden in result.text


def _caught_by(verdict: Verdict) -> str:
    if verdict.checks["constraints"] is False:
        return "text"
    return "run time" if verdict.checks["run_time_constraints"] is False else "neither"
