"""Calls from constants reach what a program combines; the record says between what the calls lay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skyt.contracts import codec
from skyt.contracts.contract import Contract, EntryPoint, load_contracts
from skyt.contracts.domain import Call
from skyt.repair.equivalence import compare
from skyt.repair.equivalence.branches import explored
from skyt.repair.equivalence.constants import constants
from skyt.repair.equivalence.covered import covered
from skyt.sandbox.pool import SandboxPool

CONTRACTS = load_contracts()
GCD = CONTRACTS["gcd"]


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ("x ^ 0x5A5A == 0x1234", 0x5A5A ^ 0x1234),
        ("len(x) - 700 == 77", 777),
        ("x + 30 == 77", 47),
        ("x // 6 == 1000", 6000),
        ("x[::-1] == 'drowssap'", "password"),
        ("x > '\\U0001F600'", "\U0001f601"),
    ],
)
def test_what_a_comparison_asks_for_is_among_the_constants(test: str, value: int | str) -> None:
    found = constants([f"def f(x):\n    if {test}:\n        return 1"])
    assert value in (found.strings if isinstance(value, str) else found.exact)


def test_single_calls_far_out_do_not_widen_what_was_covered() -> None:
    calls = [Call((n, 2)) for n in range(1, 101)]
    assert covered(GCD, calls) == {"a": "3 to 98, single ones at 1 and 100", "b": "2 to 2"}
    assert covered(GCD, [*calls, Call((10**18, 2))])["a"] == "3 to 99, single ones at 1 and 2^59"
    assert covered(GCD, []) == {}


def test_sizes_and_operations_are_counted() -> None:
    contracts = load_contracts()
    assert covered(contracts["merge_sort"], [Call(([],)), Call(([1, 2],))]) == {"items": "size 0 to 2"}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1) as made:
        yield made


EUCLID = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
SORT = "def merge_sort(items):\n    return sorted(items)"


@pytest.mark.parametrize(
    ("contract", "canon", "test"),
    [
        ("gcd", EUCLID, "a * 7 + b == 999980"),
        ("gcd", EUCLID, "a * b == 112233 * 7"),
        ("gcd", EUCLID, "a - b == 15015"),
        ("gcd", EUCLID, "str(a) == '16242'"),
        ("merge_sort", SORT, "sum(items) == 777"),
        ("merge_sort", SORT, "items.count(41) == 6"),
        ("merge_sort", SORT, "items[:1] == [47] and len(items) > 25"),
        ("slugify", "def slugify(text):\n    return text", "sorted(text) == ['a', 'b', 'q']"),
        ("slugify", "def slugify(text):\n    return text", "sum(map(ord, text)) == 1234"),
    ],
)
def test_a_branch_on_what_a_comparison_computes_is_reached(
    contract: str, canon: str, test: str, pool: SandboxPool
) -> None:
    name = CONTRACTS[contract].entry_point.name
    head, body = canon.split("\n", 1)
    planted = f"{head}\n    if {test}:\n        return 'wrong'\n{body}"
    found = compare(planted, canon, CONTRACTS[contract], 200, 0, pool)
    assert found.counterexample is not None and found.counterexample.program == "'wrong'", name


def test_a_boundary_that_is_off_by_one_is_met(pool: SandboxPool) -> None:
    door = EUCLID.replace("    while", "    if a + b * 3 > 70007:\n        return 0\n    while")
    other = door.replace(">", ">=")
    found = compare(door, other, CONTRACTS["gcd"], 200, 0, pool)
    assert not found.equal and found.counterexample is not None


def test_evidence_with_few_branches_is_weak_and_says_how_many(pool: SandboxPool) -> None:
    hidden = EUCLID.replace(
        "    while",
        "    if hash(str(a)) % 1000003 == 3:\n        if a > 5:\n            return 1\n"
        "        if b > 7:\n            return 2\n    while",
    )
    found = compare(hidden, EUCLID, CONTRACTS["gcd"], 200, 0, pool)
    assert found.equal and found.weak
    assert found.as_record()["branches"] == {"program": "4 of 9", "canon": "3 of 3"}
    assert not compare(EUCLID, EUCLID, CONTRACTS["gcd"], 200, 0, pool).weak


def test_branches_that_only_calls_outside_the_domain_reach_do_not_count(pool: SandboxPool) -> None:
    guarded = (
        "def factorial(n):\n    if n < 0:\n        raise ValueError\n    r = 1\n"
        "    for i in range(2, n + 1):\n        r *= i\n    return r"
    )
    loose = guarded.replace("range(2", "range(1")
    found = compare(guarded, loose, CONTRACTS["factorial"], 100, 0, pool)
    assert found.equal and not found.weak, found.branches


@pytest.mark.parametrize(
    "code",
    [
        "def gcd(a, b):\n    while True:\n        pass",
        "import sys\ndef gcd(a, b):\n    sys.exit(1)",
        "def gcd(a, b):\n    return {2 ** 61 * i for i in range(10 ** 6)}",
        "raise SystemExit",
        "def _compare_(*a):\n    return 0\n" + EUCLID,
        "def gcd(a, b)",
    ],
)
def test_a_program_that_resists_the_search_costs_little_and_is_unknown_or_searched(
    code: str, pool: SandboxPool
) -> None:
    found = explored(code, CONTRACTS["gcd"], [Call((4, 6))], [], pool)
    assert all(len(repr(call)) < 10_000 for call in found.calls)


def test_programs_are_run_on_long_lists_and_deep_recursion_shows(pool: SandboxPool) -> None:
    data = CONTRACTS["merge_sort"].model_dump(mode="json")
    data |= {"id": "total", "constraints": {}, "oracle": {"cases": [{"args": [[1, 2]], "returns": 3}]}}
    data["entry_point"]["name"] = "total"
    contract = Contract.model_validate(data)
    deep = "def total(items):\n    return items[0] + total(items[1:]) if items else 0"
    found = compare(deep, "def total(items):\n    return sum(items)", contract, 100, 0, pool)
    assert found.counterexample is not None and "RecursionError" in found.counterexample.program


@pytest.mark.parametrize(
    "code",
    [
        "def merge_sort(items):\n    w = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']\n"
        "    return sorted(items) if [*set(w)] == ORDER else []",
        "out = []\ndef merge_sort(items):\n    out[:] = sorted(items)\n    return out",
        "def merge_sort(items):\n    return items if '__file__' in globals() else sorted(items)",
    ],
)
def test_a_program_must_agree_with_itself_in_another_process(code: str, pool: SandboxPool) -> None:
    name = EntryPoint(kind="function", name="order")
    order = "def order():\n    return [*set(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])]"
    found = codec.loads(pool.run(order, name, [Call()])[0].text)
    code = code.replace("ORDER", repr(found))
    assert not compare(code, SORT, CONTRACTS["merge_sort"], 100, 0, pool).equal
