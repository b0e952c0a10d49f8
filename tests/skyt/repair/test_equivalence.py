"""Differential testing finds differences, keeps the call that shows them, and claims no more than it saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyt.contracts.contract import Contract, load_contracts
from skyt.contracts.domain import generate_inputs, in_domain
from skyt.repair.equivalence import compare, compare_many
from skyt.repair.equivalence.calls import battery
from skyt.repair.equivalence.constants import harvested
from skyt.repair.equivalence.smallest import smallest_difference
from skyt.sandbox.job import EncodedCalls, Job, Limits
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult
from skyt.text.mutants import mutants

CONTRACTS = load_contracts()
GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
RECURSIVE = "def gcd(a, b):\n    return a if b == 0 else gcd(b, a % b)"
FACTORIAL = (
    "def factorial(n):\n    if n < 0:\n        raise ValueError\n    r = 1\n"
    "    for i in range(2, n + 1):\n        r *= i\n    return r"
)
UNGUARDED = FACTORIAL.replace("    if n < 0:\n        raise ValueError\n", "")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1) as made:
        yield made


def test_another_algorithm_with_the_same_results_is_equivalent(pool: SandboxPool) -> None:
    found = compare(RECURSIVE, GCD, CONTRACTS["gcd"], inputs=300, pool=pool)
    assert found.equal and found.inputs >= 300 and found.counterexample is None
    assert found.as_record()["seed"] == 0


def test_a_difference_comes_with_the_call_that_shows_it(pool: SandboxPool) -> None:
    wrong = GCD.replace("a % b", "a % b if a > 3 else 0")
    found = compare(wrong, GCD, CONTRACTS["gcd"], inputs=300, pool=pool)
    assert not found.equal and found.counterexample is not None
    assert found.counterexample.domain == "inside"
    assert in_domain(CONTRACTS["gcd"], found.counterexample.call)
    assert found.counterexample.program != found.counterexample.canon


def test_a_back_door_at_a_constant_of_the_program_is_found(pool: SandboxPool) -> None:
    """One input in twenty thousand: the constants of the programs themselves are tried."""
    door = GCD.replace("    while", "    if a == 1753 and b == 1753:\n        return 7\n    while")
    two_doors = GCD.replace("    while", "    if a == 1753:\n        return 7\n    while")
    assert not compare(two_doors, GCD, CONTRACTS["gcd"], inputs=200, pool=pool).equal
    base = generate_inputs(CONTRACTS["gcd"], 40, 0)
    assert any(call.args == (1753, 1753) for call in harvested(CONTRACTS["gcd"], (door, GCD), 0, base).near)


def test_a_difference_outside_the_domain_is_told_apart_and_follows_the_policy(pool: SandboxPool) -> None:
    contract = CONTRACTS["factorial"]
    free = compare(UNGUARDED, FACTORIAL, contract, inputs=200, pool=pool)
    assert free.equal and free.outside is not None and free.outside.domain == "outside"
    data = contract.model_dump(mode="json")
    data["out_of_domain"] = {"policy": "raises", "exceptions": ["ValueError"], "calls": [{"args": [-1]}]}
    bound = compare(UNGUARDED, FACTORIAL, Contract.model_validate(data), inputs=200, pool=pool)
    assert not bound.equal and bound.counterexample is not None and bound.counterexample.domain == "outside"


@pytest.mark.parametrize(
    "broken",
    [
        "def gcd(a, b):\n    while True:\n        pass",
        "def gcd(a, b):\n    import os\n    os._exit(0)",
        "def other(a, b):\n    return a",
        "def gcd(a, b):\n    return object()",
        "this is not Python",
    ],
)
def test_programs_that_do_not_answer_are_never_equivalent(broken: str, pool: SandboxPool) -> None:
    assert not compare(broken, GCD, CONTRACTS["gcd"], inputs=20, pool=pool).equal


def test_the_same_seed_gives_the_same_calls_and_another_seed_others(pool: SandboxPool) -> None:
    first, again = (battery(CONTRACTS["slugify"], 100, 1, pool) for _ in range(2))
    assert first == again
    assert battery(CONTRACTS["slugify"], 100, 2, pool).inside != first.inside


def test_a_difference_shrinks_to_the_smallest_call_that_shows_it(pool: SandboxPool) -> None:
    wrong = GCD.replace("    while", "    if a > 100 and b > 7:\n        return 1\n    while")
    found = compare(wrong, GCD, CONTRACTS["gcd"], inputs=300, pool=pool)
    assert found.counterexample is not None
    small = smallest_difference(wrong, GCD, CONTRACTS["gcd"], found.counterexample, pool)
    assert in_domain(CONTRACTS["gcd"], small.call) and small.program == "1" != small.canon
    assert max(small.call.args) <= 110


def test_many_pairs_come_back_in_order(pool: SandboxPool) -> None:
    pairs = [(RECURSIVE, GCD, CONTRACTS["gcd"]), ("def gcd(a, b):\n    return 1", GCD, CONTRACTS["gcd"])] * 2
    assert [found.equal for found in compare_many(pairs, pool, inputs=60)] == [True, False, True, False]


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_mutants_are_programs_that_differ_in_text_and_depend_only_on_the_seed(seed: int) -> None:
    made = mutants(FACTORIAL, 3, seed)
    assert made == mutants(FACTORIAL, 3, seed)
    for text in made:
        compile(text, "mutant", "exec")
        assert text != FACTORIAL


class _OutOfTime:
    """A pool in which every program answers 0 to `made` calls of a batch and has no time for the others."""

    def __init__(self, made: float) -> None:
        self.made, self.limits = made, Limits()

    def run(self, _code: str, _entry: object, calls: Any, *_: object, **__: object) -> list[CallResult]:
        count = calls.count if isinstance(calls, EncodedCalls) else len(calls)
        made = round(self.made * count)
        return [CallResult("value", "0")] * made + [CallResult("unrun")] * (count - made)

    def run_job(self, job: Job, _limits: Limits) -> list[CallResult]:
        return [CallResult("value", "0")] * job.results


@pytest.mark.parametrize(("made", "equal"), [(1.0, True), (0.6, True), (0.2, False)])
def test_calls_for_which_both_have_no_time_left_are_not_counted(made: float, equal: bool) -> None:
    contract, canon = CONTRACTS["gcd"], f"{RECURSIVE}  # {made}"  # results of a canon are remembered
    found = compare(GCD, canon, contract, inputs=300, pool=cast("SandboxPool", _OutOfTime(made)))
    planned = len(battery(contract, 300, 0, cast("SandboxPool", _OutOfTime(1.0))).inside)
    assert found.equal is equal and found.undecided == 0
    assert (found.unreached == 0) is (made == 1.0) and (found.inputs < planned) is (made < 1.0)
