"""Verdicts follow the contract's equality and constraints, and say what showed a violation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skyt.contracts.contract import Contract, load_contract
from skyt.oracle.oracle import Oracle
from skyt.sandbox import SandboxPool

INT = {"type": "int"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with SandboxPool(workers=1) as pool:
        yield Oracle(pool)


def _counting(**oracle: object) -> Contract:
    """A contract whose results are dicts and floats."""
    return Contract.model_validate({
        "id": "count",
        "prompt": "Count.",
        "entry_point": {"kind": "function", "name": "f", "parameters": [{"name": "a", "type": "list[int]"}]},
        "domain": {"parameters": {"a": {"type": "list", "elements": {"type": "int"}}}},
        "oracle": {
            "cases": [{"args": [[2, 1, 2]], "returns": {2: 2, 1: 1}}],
            "properties": [
                {"name": "reference", "reference": "def f(a):\n    return {x: a.count(x) for x in a}"},
                {"name": "total", "holds": "sum(result.values()) == len(a)"},
                {"name": "again", "then": "(list(result),)", "holds": "again.keys() == result.keys()"},
            ],
            "generated": 30,
            **oracle,
        },
    })  # fmt: skip


BACKWARDS = "def f(a):\n    return {x: a.count(x) for x in reversed(a)}"


def test_order_of_a_dict_is_no_fault_unless_the_contract_says_so(oracle: Oracle) -> None:
    assert oracle.check(BACKWARDS, _counting()).failures == []
    verdict = oracle.check(BACKWARDS, _counting(ordered=True))
    assert not verdict.compliant
    assert verdict.failures[0].startswith("property 'reference'")
    assert _counting().hash != _counting(ordered=True).hash


def test_reordering_a_dict_argument_changes_it_only_where_order_counts(oracle: Oracle) -> None:
    code = "def f(d):\n    d[1] = d.pop(1)\n    return 0"
    for ordered in (True, False):
        contract = Contract.model_validate({
            "id": "reorder",
            "prompt": "Reorder.",
            "entry_point": {"kind": "function", "name": "f", "parameters": [{"name": "d", "type": "dict"}]},
            "domain": {"parameters": {"d": {"type": "dict", "keys": INT, "values": INT}}},
            "oracle": {"cases": [{"args": [{1: 5, 2: 6}], "returns": 0}], "generated": 0, "ordered": ordered},
        })  # fmt: skip
        assert oracle.check(code, contract).compliant is not ordered


def test_floats_are_exact_unless_the_contract_gives_a_tolerance(oracle: Oracle) -> None:
    def contract(**tolerance: float) -> Contract:
        return Contract.model_validate({
            "id": "mean",
            "prompt": "Mean.",
            "entry_point": {"kind": "function", "name": "f", "parameters": [{"name": "a", "type": "list"}]},
            "domain": {"parameters": {"a": {"type": "list", "elements": {"type": "float"}, "min_length": 1}}},
            "oracle": {
                "cases": [{"args": [[0.1, 0.2, 0.3]], "returns": 0.2}],
                "properties": [{"name": "mean", "reference": "def f(a):\n    return sum(a) / len(a)"}],
                "generated": 50,
                **tolerance,
            },
        })  # fmt: skip

    other = "def f(a):\n    return sum(x / len(a) for x in a)"
    assert not oracle.check(other, contract()).compliant
    assert oracle.check(other, contract(atol=1e-9, rtol=1e-9)).failures == []
    wrong = "def f(a):\n    return sum(a) / len(a) + 0.001"
    assert not oracle.check(wrong, contract(atol=1e-9, rtol=1e-9)).compliant
    with pytest.raises(ValueError, match="rtol"):
        contract(rtol=1.5)


def test_verdict_says_whether_text_or_run_time_showed_the_violation(oracle: Oracle) -> None:
    contract = load_contract("quick_sort")
    written = oracle.check("def quick_sort(a):\n    s = sorted\n    return s(a)", contract)
    assert written.failures == ["refers to sorted, which the contract does not allow"]
    assert (written.checks["constraints"], written.checks["run_time_constraints"]) == (False, None)
    hidden = oracle.check(
        "def quick_sort(a):\n    n = str.lower('SORT')\n    getattr(a, n)()\n    return a", contract
    )
    assert hidden.failures == ["at run time: calls sort, which the contract does not allow"]
    assert (hidden.checks["constraints"], hidden.checks["run_time_constraints"]) == (True, False)
