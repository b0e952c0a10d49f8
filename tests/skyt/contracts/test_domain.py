"""Generated inputs are in the domain, the same for the same seed, and reach the corners."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.contracts import codec
from skyt.contracts.contract import Contract, load_contracts
from skyt.contracts.domain import Call, Operation, generate_inputs, generate_outside, in_domain
from skyt.contracts.facts import conditions
from skyt.contracts.kinds.containers import ListSpec
from skyt.repair.rules import Facts as RuleFacts

CONTRACTS = load_contracts()


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_generated_inputs_are_in_domain_deterministic_and_prefixes_of_longer_lists(contract_id: str) -> None:
    contract = CONTRACTS[contract_id]
    calls = generate_inputs(contract, 500, seed=3)
    assert len(calls) == 500
    assert all(in_domain(contract, call) for call in calls)
    assert generate_inputs(contract, 500, seed=3) == calls
    assert generate_inputs(contract, 100, seed=3) == calls[:100]
    assert generate_inputs(contract, 500, seed=4) != calls


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_calls_survive_json_exactly(contract_id: str) -> None:
    for call in generate_inputs(CONTRACTS[contract_id], 200, seed=1):
        assert Call.from_json(json.loads(json.dumps(call.to_json()))) == call


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_listed_cases_are_in_domain(contract_id: str) -> None:
    contract = CONTRACTS[contract_id]
    for case in contract.oracle.cases:
        operations = case.operations
        call = Call(
            case.args,
            {},
            None if operations is None else tuple(Operation(op.method, op.args) for op in operations),
        )
        assert in_domain(contract, call)


@pytest.mark.parametrize("contract_id", ["factorial", "gcd", "binary_search", "lru_cache", "fibonacci_basic"])
def test_calls_outside_break_a_precondition(contract_id: str) -> None:
    contract = CONTRACTS[contract_id]
    calls = generate_outside(contract, 50, seed=0)
    assert len(calls) == 50
    assert not any(in_domain(contract, call) for call in calls)


def test_domain_without_preconditions_has_no_outside() -> None:
    assert generate_outside(CONTRACTS["is_prime"], 10, seed=0) == []


def test_look_alikes_are_outside_the_domain() -> None:
    gcd = CONTRACTS["gcd"]
    assert in_domain(gcd, Call((4, 6)))
    for args in [(True, 6), (4.0, 6), (0, 6), (4,), (4, 6, 1), ("4", 6)]:
        assert not in_domain(gcd, Call(args))
    assert not in_domain(gcd, Call((4,), {"b": 6}))
    assert not in_domain(CONTRACTS["binary_search"], Call(([2, 1], 1)))
    assert not in_domain(CONTRACTS["slugify"], Call(("\ud800",)))
    assert not in_domain(CONTRACTS["lru_cache"], Call((2,), {}, (Operation("clear"),)))


def test_strings_reach_brackets_separators_and_unicode() -> None:
    brackets = [call.args[0] for call in generate_inputs(CONTRACTS["balanced_brackets"], 500, 0)]
    assert {"", "(", ")(", "([)]"} <= set(brackets)
    assert any(len(s) > 10 and set(s) <= set("()[]{}") for s in brackets)
    texts = "".join(call.args[0] for call in generate_inputs(CONTRACTS["slugify"], 500, 0))
    assert set(" -_\t\n\u0301\u0130\u03a3\u212a\u00a0") <= set(texts)


def test_lists_reach_empty_duplicates_sorted_and_reversed() -> None:
    lists = [call.args[0] for call in generate_inputs(CONTRACTS["merge_sort"], 300, 0)]
    assert [] in lists
    long = [x for x in lists if len(x) > 3]
    assert any(len(set(x)) < len(x) for x in long)
    assert any(x == sorted(x) for x in long)
    assert any(x == sorted(x, reverse=True) for x in long)


def test_searches_hit_and_miss() -> None:
    calls = generate_inputs(CONTRACTS["binary_search"], 300, 0)
    hits = sum(call.args[1] in call.args[0] for call in calls)
    assert 75 < hits < 225


def test_operation_sequences_evict_and_meet_stored_keys() -> None:
    calls = generate_inputs(CONTRACTS["lru_cache"], 200, 0)
    puts = [{op.args[0] for op in call.operations or () if op.method == "put"} for call in calls]
    evicting = sum(len(keys) > call.args[0] for keys, call in zip(puts, calls, strict=True))
    assert evicting > 60


_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.sets(st.integers() | st.text(), max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_codec_round_trip_keeps_value_and_type(value: object) -> None:
    assert repr(_sorted_sets(codec.loads(codec.dumps(value)))) == repr(_sorted_sets(value))


@given(_VALUES, _VALUES)
def test_codec_texts_are_equal_only_for_equal_values(first: object, second: object) -> None:
    if codec.dumps(first) == codec.dumps(second):
        assert repr(_sorted_sets(first)) == repr(_sorted_sets(second))


def test_codec_makes_everything_else_opaque() -> None:
    sly = type("Sly", (int,), {})(3)
    for value in (sly, type("Sub", (list,), {})(), object(), len, (x for x in ()), 1 << (1 << 21)):
        assert isinstance(codec.loads(codec.dumps(value)), codec.Opaque)


def test_codec_survives_cycles_and_depth() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert "nested too deeply" in codec.dumps(cycle)


@pytest.mark.parametrize(
    "text",
    [
        '{"x":1}',
        '{"i":"zz"}',
        '{"f":1}',
        "1.5",
        "NaN",
        "[" * 10**5,
        '{"t":1}',
        "9" * 9999,
        '{"s":[[]]}',
        "{}",
    ],
)
def test_forged_texts_raise_value_error_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError):
        codec.loads(text)


def _sorted_sets(value: object) -> object:
    """Sets in a fixed order, so that repr compares them."""
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(map(repr, value)))
    if isinstance(value, list):
        return [_sorted_sets(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_sorted_sets(item) for item in value)
    if isinstance(value, dict):
        return {key: _sorted_sets(item) for key, item in value.items()}
    return value


NESTED: dict[str, dict[str, Any]] = {
    "grid": {"type": "list", "elements": {"type": "list", "elements": {"type": "int"}, "max_length": 4}},
    "table": {
        "type": "dict",
        "keys": {"type": "str", "alphabet": "abc"},
        "values": {"type": "int", "min": 0},
    },
    "groups": {
        "type": "dict",
        "keys": {"type": "int"},
        "values": {"type": "list", "elements": {"type": "str", "max_length": 3}},
        "min_length": 1,
    },
}


def nested(name: str) -> Contract:
    parameter = {"name": name, "type": NESTED[name]["type"]}
    return Contract.model_validate(
        {
            "id": "nested",
            "prompt": "size of a container",
            "entry_point": {"kind": "function", "name": "size", "parameters": [parameter], "returns": "int"},
            "domain": {"parameters": {name: NESTED[name]}},
            "oracle": {"cases": [{"args": [[] if name == "grid" else {}], "returns": 0}]},
        }
    )


@pytest.mark.parametrize("name", NESTED)
def test_containers_of_containers_are_generated_inside_their_domain(name: str) -> None:
    contract = nested(name)
    calls = generate_inputs(contract, 300, seed=5)
    assert len({repr(call) for call in calls}) == 300
    assert all(in_domain(contract, call) for call in calls)
    assert generate_inputs(contract, 300, seed=5) == calls
    assert all(Call.from_json(json.loads(json.dumps(call.to_json()))) == call for call in calls)
    holds = " and ".join(conditions(name, contract.facts()[name]))
    assert all(eval(holds, {name: call.args[0]}) for call in calls)  # noqa: S307
    wrong: Any = [[[1, "a"]], {"a": -1}, {}][list(NESTED).index(name)]
    assert not in_domain(contract, Call((wrong,)))


def test_types_of_containers_reach_the_rules() -> None:
    types = [RuleFacts.from_contract(nested(name)).parameters[0].type for name in NESTED]
    assert types == [("list", ("list", "int")), ("dict", "str", "int"), ("dict", "int", ("list", "str"))]


def test_a_list_of_dicts_has_no_order_and_no_repeats_to_ask_for() -> None:
    with pytest.raises(ValueError, match="a list of dict cannot be sorted"):
        ListSpec.model_validate({"elements": NESTED["table"], "sorted": True})
    with pytest.raises(ValueError, match="a list of list cannot be distinct"):
        ListSpec.model_validate({**NESTED["grid"], "distinct": True})
