"""`contracts import` writes what is sound, the rest is a line each; `contracts check` finds weakness."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.skyt.contracts.importers.test_tasks import ADD, PAIRS

from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract, read_contract, read_contracts
from skyt.oracle.oracle import Oracle
from skyt.runs.importing import import_contracts
from skyt.runs.strength import check_contracts, keep
from skyt.sandbox import SandboxPool

SHOP = '''
import math

RATE = 0.2

def _cents(x):
    return math.floor(x * 100 + 0.5) / 100

def total(prices: list[float], discount: float = 0.0) -> float:
    """The sum of the prices with tax, less a discount; ValueError for a discount that is none."""
    if not 0 <= discount <= 1:
        raise ValueError(discount)
    return _cents(sum(prices) * (1 + RATE) * (1 - discount))

def empty(items: list[int]) -> int:
    """Empty the list and say how many items there were."""
    count = len(items)
    items.clear()
    return count
'''
TESTS = """
import pytest
import requests
import shop
from shop import total

@pytest.fixture
def prices():
    return [10.0, 5.5]

@pytest.mark.parametrize("given, wanted", [([], 0.0), ([1.0], 1.2), ([2.0, 3.0], 6.0)])
def test_tax(given, wanted):
    assert total(given) == pytest.approx(wanted)

def test_discount(prices):
    assert shop.total(prices, discount=0.5) == pytest.approx(9.3)

def test_bad_discount():
    with pytest.raises(ValueError):
        total([1.0], 2)

def test_remote():
    assert requests.get("http://example.org").ok

def test_database(database):
    assert total(database.prices()) == 0

class TestMore:
    def test_zero(self):
        assert total([0.0]) == 0
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as started:
        yield started


def _tasks(folder: Path, *rows: Any) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_references_that_fail_or_do_not_end_are_left_out(tmp_path: Path) -> None:
    endless = {**ADD, "task_id": "T/1", "canonical_solution": "    while True: pass\n"}
    failing = {**ADD, "task_id": "T/2", "canonical_solution": "    return xs[0] / 0\n"}
    report = import_contracts(_tasks(tmp_path, endless, ADD, "{", failing, PAIRS), tmp_path / "out")
    assert sorted(read_contracts(tmp_path / "out")) == ["HumanEval_1000", "Mbpp_2000"]
    lines = sorted(str(problem).removeprefix(str(tmp_path)) for problem in report.problems)
    assert len(lines) == 3
    assert "line 1 (T_1)" in lines[0] and "ran out of time" in lines[0]
    assert "line 3" in lines[1] and "not JSON" in lines[1]
    assert "line 4 (T_2)" in lines[2] and "ZeroDivisionError" in lines[2]


def test_inputs_whose_results_are_too_large_are_left_out_and_said(tmp_path: Path) -> None:
    power = {
        **ADD,
        "prompt": "def add(n):\n",
        "canonical_solution": "    return 1 << n\n",
        "base_input": [[3], [1 << 21]],
        "plus_input": [],
        "contract": "",
    }
    report = import_contracts(_tasks(tmp_path, power), tmp_path / "out")
    assert not report.problems
    assert "without 1 of 2 inputs" in str(report.notes[0]) and "2097152" in str(report.notes[0])
    (contract,) = read_contracts(tmp_path / "out").values()
    assert [given.args for given in contract.oracle.inputs] == [(3,)]


def _imported_tests(folder: Path, function: str = "shop:total") -> tuple[Contract, list[str]]:
    (folder / "shop.py").write_text(SHOP)
    path = folder / "test_shop.py"
    path.write_text(TESTS)
    report = import_contracts(path, folder / "out", function=function)
    (written,) = report.written
    return read_contract(written), [str(problem) for problem in report.problems]


def test_tests_that_cannot_run_are_left_out_and_the_others_judge(tmp_path: Path, pool: SandboxPool) -> None:
    contract, problems = _imported_tests(tmp_path)
    assert len(problems) == 2
    assert "test_remote is left out: it uses 'requests'" in problems[0]
    assert "test_database is left out: it needs the fixture 'database'" in problems[1]
    head = "def total(p, discount=0.0):\n    if discount > 1: raise ValueError\n"
    right = head + "    return sum(p) * 1.2 * (1 - discount)"
    oracle = Oracle(pool)
    assert oracle.check(right, contract).compliant
    for wrong, says in (
        (right.replace("1.2", "1.3"), "test_tax fails"),
        (right.replace("ValueError", "KeyError"), "test_bad_discount fails: KeyError"),
        (right.replace(" * (1 - discount)", ""), "test_discount fails"),
        ("def total(p, discount=0):\n    while True: pass", "ran out of time"),
        ("def other(): pass", "no entry point"),
    ):
        verdict = oracle.check(wrong, contract)
        assert not verdict.compliant and says in verdict.failures[0], verdict.failures


def test_a_test_sees_what_the_function_did_to_its_argument(tmp_path: Path, pool: SandboxPool) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    path = tmp_path / "test_empty.py"
    path.write_text(
        "from shop import empty\n\n"
        "def test_empty():\n    xs = [1, 2]\n    assert empty(xs) == 2\n    assert xs == []\n"
    )
    report = import_contracts(path, tmp_path / "out", function="shop:empty")
    contract = read_contract(report.written[0])
    oracle = Oracle(pool)
    assert oracle.check("def empty(xs):\n    n = len(xs)\n    del xs[:]\n    return n", contract).compliant
    assert not oracle.check("def empty(xs):\n    return len(xs)", contract).compliant


def test_a_test_file_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        import_contracts(tmp_path / "test_x.py", tmp_path / "out", function="x:f")
    with pytest.raises(UserError, match="write MODULE:NAME"):
        import_contracts(tmp_path / "test_x.py", tmp_path / "out", function="x")


def test_a_contract_that_checks_little_is_weak_and_says_what_it_missed(
    tmp_path: Path, pool: SandboxPool
) -> None:
    many = [[[n, -n, 3], n / 4] for n in range(30)] + [[[], 0.0], [[7], 2.0]]
    strong = {**ADD, "task_id": "T/strong", "base_input": many, "plus_input": []}
    weak = {**ADD, "task_id": "T/weak", "base_input": [[[], 0.0]], "plus_input": []}
    import_contracts(_tasks(tmp_path, strong, weak), tmp_path / "out")
    found = {
        s.contract_id: s for s in check_contracts(read_contracts(tmp_path / "out"), pool, count=8, inputs=40)
    }
    assert not found["T_strong"].weak and found["T_strong"].missed == 0
    assert found["T_weak"].weak and found["T_weak"].missed > 0
    assert (
        "add(" in found["T_weak"].differences[0] and "the reference returns" in found["T_weak"].differences[0]
    )
    kept = json.loads(keep(list(found.values()), tmp_path / "out").read_text())
    assert kept["T_weak"]["weak"] and not kept["T_strong"]["weak"]
