"""Task files become contracts; what cannot become one is a line, and the rest of the file is read."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from skyt.contracts.contract import Contract, read_contract
from skyt.contracts.importers import Imported, Problem, read_tasks, write_contract

ADD = {
    "task_id": "HumanEval/1000",
    "prompt": 'from typing import List\n\n\ndef add(xs: List[int], y: float) -> float:\n    """Add."""\n',
    "entry_point": "add",
    "canonical_solution": "    return sum(xs) + y\n",
    "contract": '\n    assert y >= 0, "invalid inputs" # $_CONTRACT_$\n',
    "base_input": [[[1, 2], 0.5], [[], 0.0]],
    "plus_input": [[[5], 1.25], [[1, 2], 0.5]],
    "atol": 1e-6,
}
PAIRS = {
    "task_id": "Mbpp/2000",
    "prompt": '"""\nWrite a function to count pairs.\nassert pairs([(1, 2)], (3,)) == 1\n"""\n',
    "entry_point": "pairs",
    "canonical_solution": "\ndef pairs(items, more):\n  return len(items)\n",
    "contract": "\n  assert isinstance(more, tuple)  # $_CONTRACT_$\n",
    "base_input": [[[[1, 2]], [3]]],
    "plus_input": [[[], []], [[[4, 5], [6, 7]], [1, 2]]],
    "atol": 0,
    "assertion": "\nassert pairs([(1, 2)], (3,)) == 1\n",
}


def _read(tmp_path: Path, *rows: dict[str, Any] | str) -> list[Imported | Problem]:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return list(read_tasks(path))


def _contract(tmp_path: Path, row: dict[str, Any]) -> Contract:
    (found,) = _read(tmp_path, row)
    assert isinstance(found, Imported), found
    return found.contract


def test_a_task_becomes_a_contract(tmp_path: Path) -> None:
    contract = _contract(tmp_path, ADD)
    assert contract.id == "HumanEval_1000"
    assert [p.type for p in contract.entry_point.parameters] == ["List[int]", "float"]
    assert contract.domain.parameters["xs"].type == "list"
    assert contract.domain.where == "allowed(xs, y)"
    assert [given.args for given in contract.oracle.inputs] == [([1, 2], 0.5), ([], 0.0), ([5], 1.25)]
    assert contract.oracle.atol == 1e-6 and contract.equality.plain
    assert contract.continued


def test_tuples_that_json_lost_come_back_from_the_assertions(tmp_path: Path) -> None:
    contract = _contract(tmp_path, PAIRS)
    assert [given.args for given in contract.oracle.inputs] == [
        ([(1, 2)], (3,)),
        ([], ()),
        ([(4, 5), (6, 7)], (1, 2)),
    ]
    assert contract.domain.parameters["more"].type == "tuple"


def test_lists_stay_lists_where_the_preconditions_take_both(tmp_path: Path) -> None:
    both = {**PAIRS, "contract": "\n  assert isinstance(more, (list, tuple))\n"}
    assert _contract(tmp_path, both).oracle.inputs[0].args == ([[1, 2]], [3])


def test_examples_never_become_bounds_of_the_domain(tmp_path: Path) -> None:
    facts = _contract(tmp_path, ADD).facts()
    assert facts["xs"].type == "list" and facts["xs"].max_length is None
    assert facts["y"].min is None and facts["y"].max is None


def test_a_bool_among_integers_makes_no_union(tmp_path: Path) -> None:
    row = {**ADD, "prompt": "def add(xs, y):\n", "plus_input": [[[True], 1]], "base_input": [[[1], 2]]}
    specs = _contract(tmp_path, row).domain.parameters
    assert specs["y"].type == "int" and specs["xs"].elements.type == "int"  # type: ignore[union-attr]


def test_the_original_humaneval_gives_its_calls_and_draws_more(tmp_path: Path) -> None:
    row = {key: ADD[key] for key in ("task_id", "prompt", "entry_point", "canonical_solution")}
    row["test"] = (
        "def check(candidate):\n    assert candidate([1], 2.0) == 3.0\n    assert candidate([], 1.0) == 1.0\n"
    )
    contract = _contract(tmp_path, row)
    assert [given.args for given in contract.oracle.inputs] == [([1], 2.0), ([], 1.0)]
    assert contract.oracle.generated > 0


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"task_id": "HumanEval/1"', "not JSON"),
        ("[1, 2]", "a list, not an object"),
        ({**ADD, "entry_point": 3}, "'entry_point' is 3"),
        ({key: ADD[key] for key in ("task_id", "prompt", "entry_point")}, "'canonical_solution' is missing"),
        ({**ADD, "canonical_solution": "    return (\n"}, "not Python"),
        ({**ADD, "entry_point": "subtract"}, "define no function 'subtract'"),
        ({**ADD, "base_input": [3]}, "an input is not a list of arguments"),
        (
            {**ADD, "prompt": "def add(xs: Tree, y):\n", "base_input": [], "plus_input": []},
            "parameter 'xs': no values can be drawn for the type hint 'Tree'",
        ),
        (ADD, "a second task 'HumanEval/1000'"),
    ],
)
def test_a_bad_line_is_one_line_and_the_rest_is_read(tmp_path: Path, row: Any, says: str) -> None:
    good, bad, other = _read(tmp_path, ADD, row, PAIRS)
    assert isinstance(good, Imported) and isinstance(other, Imported)
    assert isinstance(bad, Problem)
    assert says in str(bad) and "line 2" in str(bad) and "\n" not in str(bad)


def test_a_hint_without_a_strategy_does_not_matter_where_inputs_say_the_type(tmp_path: Path) -> None:
    row = {**ADD, "prompt": "def add(xs: Tree, y):\n"}
    assert _contract(tmp_path, row).domain.parameters["xs"].type == "list"


def test_a_damaged_gzip_file_gives_what_was_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    notes = random.Random(0)
    rows = [{**ADD, "task_id": f"T/{n}", "note": notes.randbytes(400).hex()} for n in range(200)]
    noise = "\n".join(map(json.dumps, rows))
    path.write_bytes(gzip.compress(noise.encode())[:-2000])
    found = list(read_tasks(path))
    assert isinstance(found[0], Imported)
    assert isinstance(found[-1], Problem) and "damaged" in str(found[-1])


@pytest.mark.parametrize("row", [ADD, PAIRS])
def test_a_written_contract_is_read_back_as_it_was(tmp_path: Path, row: dict[str, Any]) -> None:
    contract = _contract(tmp_path, row)
    assert read_contract(write_contract(contract, tmp_path)).hash == contract.hash


def test_every_task_of_evalplus_is_read(shared_data: Path) -> None:
    for name, count in (("HumanEvalPlus", 164), ("MbppPlus", 378)):
        found = list(read_tasks(shared_data / "evalplus" / f"{name}.jsonl.gz"))
        assert [str(f) for f in found if isinstance(f, Problem)] == []
        assert len(found) == count
