"""Programs are compared with the canon by the contract's equality."""

from __future__ import annotations

from typing import Any

import pytest

from skyt.contracts.contract import Contract
from skyt.repair.equivalence import compare

CANON = "def f(a):\n    return {x: sum(a) / len(a) for x in a}"
BACKWARDS = "def f(a):\n    return {x: sum(a) / len(a) for x in reversed(a)}"
ROUNDED = "def f(a):\n    return {x: sum(a) * (1 / len(a)) for x in a}"


def _contract(**oracle: Any) -> Contract:
    return Contract.model_validate({
        "id": "means",
        "prompt": "Means.",
        "entry_point": {"kind": "function", "name": "f", "parameters": [{"name": "a", "type": "list[int]"}]},
        "domain": {"parameters": {"a": {"type": "list", "elements": {"type": "int"}, "min_length": 1}}},
        "oracle": {"cases": [{"args": [[1]], "returns": {1: 1.0}}], **oracle},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("program", "oracle", "equal"),
    [
        (BACKWARDS, {}, True),
        (BACKWARDS, {"ordered": True}, False),
        (ROUNDED, {}, False),
        (ROUNDED, {"rtol": 1e-9}, True),
    ],
)
def test_order_and_rounding_tell_programs_apart_only_where_the_contract_says_so(
    program: str, oracle: dict[str, Any], equal: bool
) -> None:
    assert compare(program, CANON, _contract(**oracle), inputs=150).equal is equal
