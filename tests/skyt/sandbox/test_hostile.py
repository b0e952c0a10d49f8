"""Every hostile program gets its verdict in time and leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.hostile_programs import CANARY, PROGRAMS, SECRET
from tests.support.results import decoded

from skyt.contracts.contract import Contract, load_contract
from skyt.contracts.domain import Call
from skyt.oracle.oracle import Oracle
from skyt.sandbox import Limits, SandboxPool

LIMITS = Limits(call_seconds=0.2, cpu_seconds=0.6, wall_seconds=1.5, memory_mb=256)
GOOD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"


@pytest.fixture(scope="module")
def contract() -> Contract:
    """gcd with fewer calls."""
    gcd = load_contract("gcd")
    return gcd.model_copy(update={"oracle": gcd.oracle.model_copy(update={"generated": 40})})


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    os.environ[SECRET] = "open sesame"
    with SandboxPool(workers=1, limits=LIMITS) as pool:
        yield Oracle(pool)
    del os.environ[SECRET]


@pytest.mark.parametrize("name", PROGRAMS)
def test_hostile_program_gets_a_verdict_in_time_and_leaves_nothing(
    name: str, contract: Contract, oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Without constraints, in the text or at run time: the sandbox must hold without their help.
    monkeypatch.setattr("skyt.oracle.constraints.violations", lambda *_: [])
    monkeypatch.setattr("skyt.oracle.oracle.rules_for", lambda *_: None)
    started = time.monotonic()
    verdict = oracle.check(PROGRAMS[name], contract)
    assert time.monotonic() - started < 20
    assert not verdict.compliant
    assert verdict.failures
    assert "open sesame" not in repr(verdict)
    assert not Path(CANARY).exists()
    assert not list(tmp_path.iterdir())
    assert _extra_processes(oracle.pool) == []
    results = oracle.pool.run(GOOD, contract.entry_point, [])
    assert results == []


def test_after_all_of_them_a_correct_program_is_still_compliant(contract: Contract, oracle: Oracle) -> None:
    for name in ("os_exit", "forges_results", "kills_everything", "closes_every_descriptor"):
        oracle.check(PROGRAMS[name], contract)
    assert oracle.check(GOOD, contract).compliant


def test_native_system_calls_are_refused_even_to_a_program_that_finds_the_c_library(
    contract: Contract, oracle: Oracle
) -> None:
    program = PROGRAMS["system_calls_through_a_found_library"]
    (result,) = oracle.pool.run(program, contract.entry_point, [Call((4, 6))])
    assert decoded(result) == [-1] * 10


def test_closing_the_pool_ends_every_process() -> None:
    pool = SandboxPool(workers=2, limits=replace(LIMITS, wall_seconds=30))
    jails = [jail._process.pid for jail in pool._jails]
    family = [pid for jail in jails for pid in [jail, *_descendants(jail)]]
    assert len(family) == 4  # a supervisor and a warden each
    pool.close()
    deadline = time.monotonic() + 5
    while any(_alive(pid) for pid in family) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_alive(pid) for pid in family)


def _extra_processes(pool: SandboxPool) -> list[int]:
    """Processes below the jails other than their wardens."""
    extra = []
    for jail in pool._jails:
        jail.wait_ready()
        extra += _descendants(jail._process.pid)[1:]
    return extra


def _descendants(pid: int) -> list[int]:
    children = [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == pid]
    return [*children, *(below for child in children for below in _descendants(child))]


def _parent(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
