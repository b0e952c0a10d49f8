"""Results that attack whoever reads them cost the trusted side bounded time and memory, and gain nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hostile_results import PROGRAMS

from skyt.contracts.contract import Contract, load_contract
from skyt.contracts.domain import Call
from skyt.oracle.oracle import Oracle
from skyt.sandbox import CallResult, Limits, SandboxPool, same

LIMITS = Limits(call_seconds=0.4, cpu_seconds=1, wall_seconds=2)
HOST_CPU_SECONDS = 1.5  # the figures in docs/sandbox.md
HOST_MEGABYTES = 96
GOOD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"


@pytest.fixture(scope="module")
def contract() -> Contract:
    """gcd with properties that look at results, and with the modules that the attacks use."""
    gcd = load_contract("gcd")
    properties = [
        {"name": "divides", "holds": "a % result == 0 and b % result == 0"},
        {"name": "symmetric", "then": "(b, a)", "holds": "again == result"},
        {"name": "itself", "then": "(result, result)", "holds": "again == result"},
    ]
    data = gcd.model_dump(mode="json")
    data["constraints"]["imports"] = ["os", "time"]
    data["oracle"] |= {"properties": properties, "generated": 20}
    return Contract.model_validate(data)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with SandboxPool(workers=1, limits=LIMITS) as pool:
        yield Oracle(pool)


@pytest.mark.parametrize("name", PROGRAMS)
def test_hostile_result_costs_the_host_little_and_is_not_compliant(
    name: str, contract: Contract, oracle: Oracle
) -> None:
    oracle.check(GOOD, contract)
    cpu, clock, memory = time.process_time(), time.monotonic(), _reset_peak()
    verdict = oracle.check(PROGRAMS[name], contract)
    assert not verdict.compliant
    assert len(repr(verdict.to_json())) < 5_000
    assert time.process_time() - cpu < HOST_CPU_SECONDS
    assert _peak() - memory < HOST_MEGABYTES
    assert time.monotonic() - clock < 15


@pytest.mark.parametrize("name", ["set_of_colliding_integers", "nested_lists", "digits", "values_of_1_MiB"])
def test_hostile_results_are_compared_and_shown_without_being_decoded(
    name: str, contract: Contract, oracle: Oracle
) -> None:
    calls = [Call((12, 18))] * 20
    cpu = time.process_time()
    first, second = (oracle.pool.run(PROGRAMS[name], contract.entry_point, calls) for _ in range(2))
    assert [same(a, b) for a, b in zip(first, second, strict=True)][:14] == [True] * 14
    assert all(len(result.show()) < 500 for result in first)
    assert time.process_time() - cpu < HOST_CPU_SECONDS


def test_after_all_attacks_a_correct_program_is_compliant(contract: Contract, oracle: Oracle) -> None:
    for name in ("newlines", "no_newline", "loaded_again", "closes_the_pipe", "trickle"):
        assert not oracle.check(PROGRAMS[name], contract).compliant
        fresh = Oracle(oracle.pool)
        assert fresh.check(GOOD, contract).compliant


def test_output_of_one_program_never_reaches_the_next(contract: Contract, oracle: Oracle) -> None:
    for name in ("values_of_1_MiB", "right_answers_without_end", "time_is_up_and_more", "newlines"):
        oracle.pool.run(PROGRAMS[name], contract.entry_point, [Call((12, 18))] * 20)
        results = oracle.pool.run(GOOD, contract.entry_point, [Call((12, 18)), Call((7, 5))])
        assert results == [CallResult("value", "6"), CallResult("value", "1")]


def _reset_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    """The highest resident memory of this process since the last reset, in MB."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024
