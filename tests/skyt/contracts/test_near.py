"""Calls near listed inputs keep their types, differ from them, and are the same for the same seed."""

from __future__ import annotations

from itertools import islice

from skyt.contracts.contract import Contract
from skyt.contracts.domain import generate_inputs, in_domain
from skyt.contracts.drawing.near import near

CONTRACT = Contract.model_validate(
    {
        "id": "near",
        "prompt": "def f(xs, t): ...",
        "entry_point": {
            "kind": "function",
            "name": "f",
            "parameters": [{"name": "xs", "type": "list[int]"}, {"name": "t", "type": "str"}],
        },
        "domain": {
            "parameters": {
                "xs": {"type": "list", "elements": {"type": "int", "sample_min": 0, "sample_max": 9}},
                "t": {"type": "str", "sample_alphabet": "()"},
            }
        },
        "oracle": {
            "inputs": [{"args": [[1, 2, 3], "()"]}, {"args": [[], "(())"]}, {"args": [[7], ""]}],
            "properties": [{"name": "r", "reference": "def f(xs, t):\n    return xs"}],
        },
    }
)


def test_calls_near_listed_ones_have_their_types() -> None:
    calls = list(islice(near(CONTRACT, 0), 300))
    assert all(in_domain(CONTRACT, call) for call in calls)
    assert all(set(call.args[1]) <= set("()") for call in calls)
    assert len({repr(call) for call in calls}) > 80
    assert calls == list(islice(near(CONTRACT, 0), 300))
    assert calls != list(islice(near(CONTRACT, 1), 300))


def test_drawn_strings_have_the_characters_that_a_contract_names() -> None:
    assert all(set(call.args[1]) <= set("()") for call in generate_inputs(CONTRACT, 120, 0))


def test_a_parameter_that_cannot_be_drawn_takes_listed_values_only() -> None:
    raw = CONTRACT.model_dump(mode="json")
    raw["domain"]["parameters"]["t"] = {"type": "given"}
    raw["oracle"]["inputs"] = [{"args": [[n], {"python": f"{n}+1j"}]} for n in range(5)]
    contract = Contract.model_validate(raw)
    calls = generate_inputs(contract, 20, 0)
    assert calls and {call.args[1] for call in calls} <= {complex(n, 1) for n in range(5)}
