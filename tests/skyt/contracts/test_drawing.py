"""Drawn values fit their specs and do not depend on what is loaded; values survive YAML and JSON exactly."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from skyt.contracts.contract import Contract, load_contract
from skyt.contracts.domain import Call, bound, generate_inputs, in_domain
from skyt.contracts.drawing.draw import drawn
from skyt.contracts.drawing.smaller import smallest
from skyt.contracts.hints import spec_of_hint
from skyt.contracts.literals import read_literal, write_literal
from skyt.contracts.specs import Spec
from skyt.oracle.inputs import inputs
from skyt.oracle.oracle import Oracle
from skyt.repair.rules import Facts as RuleFacts
from skyt.repair.rules.analysis.types import ANY
from skyt.sandbox.pool import SandboxPool

INT = {"type": "int"}
SPECS: list[dict[str, Any]] = [
    {"type": "int", "min": -3, "max": 70_000},
    {"type": "float", "min": 0.5},
    {"type": "bool"},
    {"type": "none"},
    {"type": "str", "regex": "[a-c]{2,5}|x"},
    {"type": "str", "alphabet": "ab", "min_length": 3},
    {"type": "bytes", "max_length": 5},
    {"type": "optional", "of": {"type": "int"}},
    {"type": "union", "of": [{"type": "int"}, {"type": "str"}]},
    {"type": "tuple", "elements": [{"type": "int"}, {"type": "str"}]},
    {"type": "tuple", "elements": {"type": "bool"}, "min_length": 1},
    {"type": "set", "elements": {"type": "int"}, "min_length": 2},
    {"type": "frozenset", "elements": {"type": "str", "alphabet": "abc"}},
    {
        "type": "list",
        "elements": {"type": "tuple", "elements": [{"type": "int"}, {"type": "int"}]},
        "sorted": True,
    },
    {"type": "list", "elements": {"type": "int"}, "distinct": True, "min_length": 2},
    {"type": "dict", "keys": {"type": "tuple", "elements": {"type": "int"}}, "values": {"type": "none"}},
    {
        "type": "record",
        "fields": {"name": {"type": "str"}, "tags": {"type": "set", "elements": {"type": "int"}}},
    },
]
PROGRAM = """
import hashlib, json, sys
sys.path.insert(0, {folder!r})
import full_of_constants
from skyt.contracts.contract import load_contract
from skyt.contracts.domain import generate_inputs
contracts = [load_contract(name) for name in ("gcd", "slugify", "lru_cache")]
calls = [call.to_json() for contract in contracts for call in generate_inputs(contract, 90, 7)]
print(hashlib.sha256(json.dumps(calls).encode()).hexdigest())
"""


def spec_of(raw: dict[str, Any]) -> Spec:
    spec: Spec = TypeAdapter[Any](Spec).validate_python(raw)
    return spec


def contract_of(raw: dict[str, Any], **more: Any) -> Contract:
    parameter = {"name": "x", "type": "object"}
    return Contract.model_validate(
        {
            "id": "one",
            "prompt": "p",
            "entry_point": {"kind": "function", "name": "f", "parameters": [parameter]},
            "domain": {"parameters": {"x": raw}, **more},
            "oracle": {"properties": [{"name": "r", "reference": "def f(x):\n    return x"}]},
        }
    )


@pytest.fixture(scope="module")
def pool() -> Any:
    with SandboxPool(workers=1) as made:
        yield made


@pytest.mark.parametrize("raw", SPECS, ids=lambda raw: json.dumps(raw)[:60])
def test_drawn_values_and_edges_fit_the_spec_and_survive_as_literals(raw: dict[str, Any]) -> None:
    spec = spec_of(raw)
    found = [
        value for value in islice(drawn(spec.strategy(), "0"), 40) if value is not None or spec.fits(None)
    ]
    assert len(found) > 30
    for value in (*found, *spec.edges()):
        assert spec.fits(value)
        assert read_literal(write_literal(value)) == value


@pytest.mark.parametrize("raw", SPECS, ids=lambda raw: json.dumps(raw)[:60])
def test_every_drawn_call_shrinks_inside_the_domain(raw: dict[str, Any]) -> None:
    contract = contract_of(raw)
    for call in generate_inputs(contract, 12, 1)[-3:]:
        found = smallest(contract, call, lambda _: True, tries=60)
        assert in_domain(contract, found) and len(found.show("")) <= len(call.show(""))


def test_inputs_do_not_depend_on_the_modules_around(tmp_path: Path) -> None:
    """Hypothesis itself would mix in constants of local modules."""
    (tmp_path / "full_of_constants.py").write_text("A = [4711, 815, 'needle', 2.75]", encoding="utf-8")
    environment = {**os.environ, "HOMEOSTAT_CACHE": str(tmp_path / "cache"), "PYTHONHASHSEED": "7"}
    program = PROGRAM.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    calls = [
        call.to_json()
        for name in ("gcd", "slugify", "lru_cache")
        for call in generate_inputs(load_contract(name), 90, 7)
    ]
    assert done.stdout.strip() == hashlib.sha256(json.dumps(calls).encode()).hexdigest()


def test_drawn_calls_are_kept_and_a_broken_file_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyt.contracts.drawing import cache

    monkeypatch.setenv("HOMEOSTAT_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_MEMORY", {})
    contract = contract_of({"type": "list", "elements": {"type": "optional", "of": {"type": "int"}}})
    first = generate_inputs(contract, 20, 3)
    (file,) = (tmp_path / "inputs").iterdir()
    cache._MEMORY.clear()
    assert generate_inputs(contract, 20, 3) == first
    cache._MEMORY.clear()
    file.write_text("{", encoding="utf-8")
    assert generate_inputs(contract, 20, 3) == first


def test_exact_values_survive_yaml_and_the_snapshot_of_a_contract() -> None:
    raw = {
        "id": "exact",
        "prompt": "p",
        "entry_point": {
            "kind": "function",
            "name": "f",
            "parameters": [{"name": "x", "type": "tuple[int, set[int]]"}],
            "returns": "list[tuple[int, int]]",
        },
        "oracle": {"cases": [{"args": [[1, [2, 3]]], "returns": [[1, 2]]}]},
        "out_of_domain": {
            "policy": "specified",
            "calls": [{"args": [{"python": "(1, float('inf'), b'a')"}], "raises": "TypeError"}],
        },
    }
    contract = Contract.model_validate(raw)
    assert contract.oracle.cases[0].args == ((1, {2, 3}),) and contract.oracle.cases[0].returns == [(1, 2)]
    assert contract.out_of_domain.calls[0].args == ((1, float("inf"), b"a"),)
    snapshot = json.loads(json.dumps({**contract.snapshot(), "contract_hash": None}))
    del snapshot["contract_hash"]
    assert Contract.model_validate(yaml.safe_load(yaml.safe_dump(snapshot))) == contract


def test_precondition_runs_in_the_sandbox_and_filters_what_is_drawn(
    pool: SandboxPool, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    contract = contract_of(
        {"type": "int"},
        where="even(x)",
        setup=f"def even(n):\n    return n % 2 == 0\ntry: open({str(mark)!r}, 'w')\nexcept OSError: pass",
    )
    found = inputs(contract, 50, 0, pool)
    assert len(found) == 50 and all(call.args[0] % 2 == 0 for call in found)
    assert not mark.exists()
    oracle = Oracle(pool)
    assert oracle.check("def f(x):\n    return x if x % 2 == 0 else None", contract).compliant
    assert (
        oracle.smallest("def f(x):\n    return x if x < 7 else 7", contract).counterexample["shown"] == "f(8)"
    )


def test_parameters_left_out_and_passed_by_name_give_no_facts() -> None:
    raw = load_contract("gcd").model_dump(mode="json")
    raw["entry_point"]["parameters"][1] |= {"default": "1"}
    contract = Contract.model_validate(raw)
    calls = generate_inputs(contract, 100, 0)
    assert {len(call.args) for call in calls} == {1, 2} and all(in_domain(contract, call) for call in calls)
    assert bound(contract, Call((6,))) == (6, 1)
    facts = RuleFacts.from_contract(contract)
    assert [p.name for p in facts.parameters] == ["a"] and facts.positional
    raw["entry_point"]["parameters"][1] |= {"keyword_only": True}
    named = Contract.model_validate(raw)
    assert {tuple(call.kwargs) for call in generate_inputs(named, 100, 0)} == {(), ("b",)}
    assert not RuleFacts.from_contract(named).positional


@pytest.mark.parametrize(
    "hint", ["tuple[int, int]", "int | None", "set[int]", "bytes", "list[tuple[int, str]]"]
)
def test_types_that_the_rules_do_not_know_are_no_facts(hint: str) -> None:
    contract = contract_of(spec_of_hint(hint).model_dump())
    (parameter,) = RuleFacts.from_contract(contract).parameters
    assert parameter.type in (ANY, ("list", ANY)) and (parameter.min, parameter.max) == (None, None)


def test_the_smallest_call_is_the_same_each_time_also_where_the_tries_run_out() -> None:
    contract = contract_of({"type": "float"})
    call = Call((-87.5612,))
    found = {repr(smallest(contract, call, lambda call: call.args[0] < -3.3, tries=20)) for _ in range(5)}
    assert len(found) == 1
