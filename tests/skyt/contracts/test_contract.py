"""Contracts load, refuse what makes no sense, and state the facts that rules stand on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from homeostat.core.errors import UserError
from homeostat.core.resources import resource
from skyt.contracts.contract import Contract, load_contract, load_contracts

EASY = {name: name for name in ("count_vowels", "find_max", "is_even", "reverse_string", "sum_list")}
ENTRY_POINTS = {
    "fibonacci_basic": "fibonacci",
    "fibonacci_recursive": "fibonacci",
    "slugify": "slugify",
    "balanced_brackets": "is_balanced",
    "gcd": "gcd",
    "binary_search": "binary_search",
    "lru_cache": "LRUCache",
    "merge_sort": "merge_sort",
    "quick_sort": "quick_sort",
    "factorial": "factorial",
    "is_palindrome": "is_palindrome",
    "is_prime": "is_prime",
}


def _raw(contract_id: str = "gcd") -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load(resource(f"contracts/{contract_id}.yaml").read_text())
    return raw


def _write(folder: Path, raw: dict[str, Any], name: str = "mine.yaml") -> Path:
    (folder / name).write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return folder


def test_the_twelve_contracts_have_their_entry_points_and_names_in_the_prompt() -> None:
    contracts = load_contracts()
    assert {c.id: c.entry_point.name for c in contracts.values()} == ENTRY_POINTS | EASY
    assert all(f"'{c.entry_point.name}'" in c.prompt for c in contracts.values())


def test_contract_file_is_named_after_its_id() -> None:
    for contract_id in ENTRY_POINTS:
        assert _raw(contract_id)["id"] == contract_id


def test_contracts_fit_the_published_schema_and_the_schema_is_up_to_date() -> None:
    import jsonschema

    schema = json.loads(resource("schemas/contract.schema.json").read_text())
    generated = Contract.model_json_schema()
    assert {**generated, **{k: schema[k] for k in ("$schema", "$id", "title")}} == schema
    for contract_id in ENTRY_POINTS:
        jsonschema.Draft202012Validator(schema).validate(_raw(contract_id))


def test_unknown_contract_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown contract 'fibonaci_basic'; did you mean 'fibonacci_basic'"):
        load_contract("fibonaci_basic")


def test_contract_without_oracle_cases_is_refused(tmp_path: Path) -> None:
    raw = {**_raw(), "id": "mine", "oracle": {"cases": []}}
    with pytest.raises(UserError, match="needs oracle cases"):
        load_contracts(_write(tmp_path, raw))


def test_users_folder_adds_to_ours_and_wins_on_equal_ids(tmp_path: Path) -> None:
    _write(tmp_path, {**_raw(), "id": "mine"})
    _write(tmp_path, {**_raw(), "prompt": "Changed: 'gcd'"}, "gcd.yaml")
    contracts = load_contracts(tmp_path)
    assert set(contracts) == {*ENTRY_POINTS, *EASY, "mine"}
    assert contracts["gcd"].prompt == "Changed: 'gcd'"


def test_two_files_with_one_id_are_refused(tmp_path: Path) -> None:
    _write(tmp_path, _raw(), "one.yaml")
    with pytest.raises(UserError, match=r"two.yaml: the id 'gcd' is already taken by one.yaml"):
        load_contracts(_write(tmp_path, _raw(), "two.yaml"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constraint": {}}, "unknown key 'constraint'; did you mean 'constraints'"),
        ({"constraints": {"recursion": "maybe"}}, "constraints.recursion = 'maybe'"),
        ({"domain": {"parameters": {"c": {"type": "int"}}}}, r"domain.parameters must describe \['a', 'b'\]"),
        ({"entry_point": {"kind": "class", "name": "gcd"}}, "a class needs `methods`"),
        ({"out_of_domain": {"policy": "raises"}}, "need some"),
        ({"id": "Not an id"}, "id = 'Not an id'"),
    ],
)
def test_mistake_in_a_contract_is_one_clear_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_contracts(_write(tmp_path, {**_raw(), **change}))
    assert "\n" not in str(caught.value)
    assert "Write a Python function" not in str(caught.value)  # not the whole contract


@pytest.mark.parametrize(
    ("prop", "message"),
    [
        ({"name": "x"}, "exactly one of"),
        ({"name": "x", "holds": "a", "reference": "b"}, "exactly one of"),
        ({"name": "x", "reference": "a", "then": "b"}, "`then` needs `holds`"),
        ({"name": "x", "holds": "a +"}, "is not an expression"),
        ({"name": "x", "reference": "def gcd("}, "is not Python"),
        (
            {"name": "x", "holds": "1 <= reslt"},
            r"x.: holds: 'reslt' in .* not defined; did you mean 'result'",
        ),
        ({"name": "x", "holds": "a", "when": "result > 1"}, "when: 'result' in 'result > 1' is not defined"),
        ({"name": "x", "holds": "result == again"}, "holds: 'again' in"),
        (
            {"name": "x", "holds": "all(mod(a, y) for z in range(a))", "setup": "mod = divmod"},
            "holds: 'y' in",
        ),
    ],
)
def test_property_must_have_one_form_and_be_python(
    tmp_path: Path, prop: dict[str, Any], message: str
) -> None:
    raw = _raw()
    raw["oracle"]["properties"] = [prop]
    with pytest.raises(UserError, match=message):
        load_contracts(_write(tmp_path, raw))


def test_facts_are_what_the_domain_guarantees() -> None:
    facts = load_contract("binary_search").facts()
    assert facts["items"].type == "list"
    assert facts["items"].sorted
    assert not facts["items"].distinct
    assert facts["items"].elements is not None
    assert facts["items"].elements.type == "int"
    # Bounds on what is generated are not facts: a rule must not lean on them.
    assert facts["target"].min is None
    assert facts["target"].max is None
    assert load_contract("factorial").facts()["n"].min == 0
    assert load_contract("lru_cache").facts("put")["value"].type == "int"


def test_preconditions_read_as_python() -> None:
    assert load_contract("gcd").preconditions() == [
        "isinstance(a, int)",
        "a >= 1",
        "isinstance(b, int)",
        "b >= 1",
    ]
    assert load_contract("binary_search").preconditions()[1] == "items == sorted(items)"


def test_hash_and_snapshot_change_with_any_field_and_with_nothing_else() -> None:
    contract = load_contract("gcd")
    assert contract.hash == load_contract("gcd").hash == contract.snapshot()["contract_hash"]
    changed = Contract.model_validate({**_raw(), "prompt": "something else"})
    assert changed.hash != contract.hash
    json.dumps(contract.snapshot())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "int", "mn": 1}, r"unknown key 'domain.parameters.a.mn'; did you mean 'min'"),
        ({"type": "lst"}, r"domain.parameters.a.type = 'lst': did you mean 'list'"),
        ({"min": 1}, r"'domain.parameters.a.type' is missing"),
        ({"type": "list", "elements": {"type": "int", "mx": 1}}, r"a.elements.mx'; did you mean 'max'"),
        ({"type": "int", "min": 3, "max": 1}, r"domain.parameters.a: nothing lies between 3 and 1"),
        ({"type": "set", "elements": {"type": "set", "elements": {"type": "int"}}}, "set cannot be in a set"),
    ],
)
def test_mistake_in_a_domain_names_the_key_and_its_neighbours(
    tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    raw = _raw()
    raw.setdefault("domain", {})["parameters"] = {"a": spec, "b": {"type": "int"}}
    with pytest.raises(UserError, match=message):
        load_contracts(_write(tmp_path, raw))
