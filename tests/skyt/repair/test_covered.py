"""Calls from constants reach what a program combines; the record says between what the calls lay."""

from __future__ import annotations

import pytest

from skyt.contracts.contract import load_contracts
from skyt.contracts.domain import Call
from skyt.repair.equivalence.constants import constants
from skyt.repair.equivalence.covered import covered

GCD = load_contracts()["gcd"]


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
