"""Contracts in Python state what YAML would; those of the how-to page refuse wrong programs as shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.docs.markdown import blocks

from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract, load_contract, read_contract
from skyt.contracts.importers import as_yaml
from skyt.contracts.importers.new import from_answers, from_function
from skyt.contracts.importers.python_file import python_contract
from skyt.oracle.oracle import Oracle
from skyt.sandbox.pool import SandboxPool

PAGE = "docs/howto/python_contracts.md"
BLOCKS = blocks(PAGE)
FILES = {block.file: block.text for block in BLOCKS if block.file}
SHOWN = [block.text.strip() for block in BLOCKS if block.language == "text"]
NAMES = [name.removesuffix(".py") for name in FILES if not name.endswith("_wrong.py")]

GCD = '''
from typing import Annotated
from annotated_types import Ge

def gcd(a: Annotated[int, Ge(1)], b: Annotated[int, Ge(1)]) -> int:
    """The greatest common divisor.

    >>> gcd(48, 18)
    6
    >>> gcd(0, 5)
    Traceback (most recent call last):
    ValueError: positive numbers only
    """

def reference(a, b):
    while b:
        a, b = b, a % b
    return a

def property_divides_both(a, b, result):
    assert a % result == 0 and b % result == 0
'''


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with SandboxPool(workers=1) as pool:
        yield Oracle(pool)


def test_the_page_has_the_ten_examples_each_under_twenty_lines() -> None:
    assert len(NAMES) == len(SHOWN) == 10
    for name in NAMES:
        assert len(FILES[f"{name}.py"].splitlines()) < 20
        assert f"{name}_wrong.py" in FILES


@pytest.mark.parametrize("name", NAMES)
def test_wrong_program_of_the_page_is_refused_with_the_call_that_is_shown(name: str, oracle: Oracle) -> None:
    contract = python_contract(FILES[f"{name}.py"], name)
    references = [prop.reference for prop in contract.oracle.properties if prop.reference]
    assert all(oracle.check(source, contract).compliant for source in references if "async" not in source)
    verdict = oracle.smallest(FILES[f"{name}_wrong.py"], contract)
    assert verdict.failures == [SHOWN[NAMES.index(name)]]


def test_a_python_file_gives_the_contract_that_yaml_gives(tmp_path: Path) -> None:
    contract = python_contract(GCD, "gcd.py")
    (tmp_path / "gcd.yaml").write_text(as_yaml(contract), encoding="utf-8")
    assert read_contract(tmp_path / "gcd.yaml") == contract
    assert contract.domain.parameters["a"].model_dump()["min"] == 1
    assert [case.returns for case in contract.oracle.cases] == [6]
    assert [(call.args, call.raises) for call in contract.out_of_domain.calls] == [((0, 5), "ValueError")]


@pytest.mark.parametrize("name", ["gcd", "lru_cache", "binary_search"])
def test_shown_yaml_reads_back_as_the_same_contract(name: str) -> None:
    contract = load_contract(name)
    assert Contract.model_validate(yaml.safe_load(as_yaml(contract))) == contract


def test_python_files_stand_beside_yaml_in_a_folder_and_are_named_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GCD.replace("gcd", "common"), encoding="utf-8")
    (tmp_path / "_helpers.py").write_text("nothing = 1", encoding="utf-8")
    assert load_contract("common", tmp_path).entry_point.name == "common"
    assert load_contract(str(tmp_path / "mine.py")).id == "common"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("a: Annotated[int, Ge(1)]", "a"), r"mine.py, line 5: the parameter 'a' needs a type hint"),
        (("Annotated[int, Ge(1)]", "object"), "the hint 'object' says too little"),
        (("Ge(1)", "Odd(1)"), r"'Odd\(1\)' is not a bound that is known"),
        (("    6\n", "    six\n"), "the doctest 'gcd\\(48, 18\\)': 'six' is not a Python literal"),
        ((">>> gcd(48", ">>> lcm(48"), "the doctest 'lcm\\(48, 18\\)' is not a call of gcd"),
        (("(a, b, result)", "(a, b)"), "property_divides_both needs the parameter 'result'"),
        (("def reference(a, b):", "def reference(a, b)"), "mine.py, line 15: not Python"),
    ],
)
def test_mistake_in_a_python_contract_is_one_clear_line(change: tuple[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        python_contract(GCD.replace(*change), "mine.py")
    assert "\n" not in str(caught.value)


def test_nothing_of_the_file_runs_here(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    python_contract(f"open({str(mark)!r}, 'w')\n{GCD}", "mine.py")
    assert not mark.exists()


def test_new_contract_from_a_function_has_what_it_needs_and_from_answers_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: Oracle
) -> None:
    monkeypatch.chdir(tmp_path)
    source = """import math
RATE = 3
def _by(x):
    return math.floor(x * RATE)
def unused():
    pass
def triple(n: int) -> int:
    '''The triple of n, not a tripled list.

    >>> triple(2)
    6
    '''
    return _by(n)
"""
    (tmp_path / "shop.py").write_text(source, encoding="utf-8")
    text = from_function("thrice", "shop:triple")
    contract = python_contract(text, "thrice.py")
    assert "The triple of n, not a tripled list." in text and ">>> thrice(2)" in text
    assert "unused" not in text and contract.oracle.cases[0].returns == 6
    assert oracle.check("def thrice(n):\n    return 3 * n", contract).compliant
    example = oracle.smallest("def thrice(n):\n    return 6 if n == 2 else 0", contract).counterexample
    assert example is not None and example["shown"] in ("thrice(1)", "thrice(-1)")
    with pytest.raises(UserError, match="has no function 'tripple'; did you mean 'triple'"):
        from_function("thrice", "shop:tripple")
    asked = python_contract(from_answers("twice(n: int) -> int", "Twice n.", "twice(3)", "6"), "twice.py")
    assert asked.oracle.cases[0].args == (3,) and asked.oracle.cases[0].returns == 6
