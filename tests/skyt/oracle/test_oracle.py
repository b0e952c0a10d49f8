"""The oracle accepts what is right, refuses what is wrong somewhere, and says where."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from homeostat.core.errors import UserError
from homeostat.core.resources import resource
from skyt.contracts.contract import Contract, load_contract, load_contracts
from skyt.contracts.domain import Call, in_domain
from skyt.oracle.oracle import Oracle
from skyt.sandbox import SandboxPool

DATA = Path(__file__).parents[2] / "data"
REFERENCES = DATA / "references"
WRONG = yaml.safe_load((DATA / "wrong_programs.yaml").read_text(encoding="utf-8"))
CONTRACTS = load_contracts(resource("contracts/easy"))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with SandboxPool(workers=2) as pool:
        yield Oracle(pool)


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_reference_solution_is_compliant(contract_id: str, oracle: Oracle) -> None:
    code = (REFERENCES / f"{contract_id}.py").read_text()
    verdict = oracle.check(code, CONTRACTS[contract_id])
    assert verdict.failures == []
    assert verdict.compliant
    assert all(verdict.checks.values())


@pytest.mark.parametrize(("contract_id", "name"), [(c, n) for c, programs in WRONG.items() for n in programs])
def test_program_that_is_wrong_on_some_input_is_not_compliant(
    contract_id: str, name: str, oracle: Oracle
) -> None:
    contract = CONTRACTS[contract_id]
    verdict = oracle.check(WRONG[contract_id][name], contract)
    assert not verdict.compliant
    assert len(verdict.failures) >= 1
    if verdict.counterexample is not None:
        assert in_domain(contract, Call.from_json(verdict.counterexample["call"]))


def test_every_contract_has_wrong_programs_to_refuse() -> None:
    assert set(WRONG) == set(CONTRACTS)


def test_counterexample_names_the_call_what_was_expected_and_what_came(oracle: Oracle) -> None:
    verdict = oracle.check("def gcd(a, b):\n    return b", CONTRACTS["gcd"])
    assert verdict.counterexample == {
        "call": {"args": [48, 18]},
        "shown": "gcd(48, 18)",
        "expected": "6",
        "got": "18",
    }
    assert verdict.failures == ["listed case: gcd(48, 18) returns 18, expected 6"]


def test_verdict_depends_on_the_normalised_text_only(oracle: Oracle) -> None:
    plain = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
    adorned = f"# a comment\n{plain.replace('while', '# and another' + chr(10) + '    while')}\n\n\n"
    assert oracle.check(plain, CONTRACTS["gcd"]) is oracle.check(adorned, CONTRACTS["gcd"])


def test_check_many_equals_check_whatever_the_order(oracle: Oracle) -> None:
    programs = [(code, CONTRACTS[c]) for c in ("gcd", "lru_cache") for code in WRONG[c].values()]
    programs += [((REFERENCES / "gcd.py").read_text(), CONTRACTS["gcd"])]
    with SandboxPool(workers=1) as pool:
        fresh = Oracle(pool)
        alone = [fresh.check(code, contract) for code, contract in programs]
    assert Oracle(oracle.pool).check_many(programs[::-1])[::-1] == alone


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("x = 1", "function gcd: no entry point"),
        ("def gcd(a, b:", "is not Python that can be parsed"),
        ("def gcd(a, b):\n    return a\nraise OSError", "function gcd: OSError"),
        ("import os\ndef gcd(a, b):\n    return a", "imports os, which the contract does not allow"),
        ("def gcd(a, b):\n    return eval('a')", "calls eval, which the contract does not allow"),
    ],
)
def test_reason_is_given_for_programs_that_cannot_be_called(
    missing: str, reason: str, oracle: Oracle
) -> None:
    assert oracle.check(missing, CONTRACTS["gcd"]).failures == [reason]


def _with(contract: Contract, **changes: object) -> Contract:
    return Contract.model_validate({**contract.model_dump(), **changes})


def test_policy_raises_demands_an_exception_outside_the_domain(oracle: Oracle) -> None:
    contract = _with(
        CONTRACTS["factorial"],
        out_of_domain={"policy": "raises", "exceptions": ["ValueError"], "calls": [{"args": [-1]}]},
    )
    plain = (REFERENCES / "factorial.py").read_text()
    guarded = plain.replace("result = 1", "if n < 0:\n        raise ValueError\n    result = 1")
    assert oracle.check(guarded, contract).compliant
    verdict = oracle.check(plain, contract)
    assert verdict.failures == ["call outside the domain: factorial(-1) returns 1, expected ValueError"]
    assert oracle.check(plain, CONTRACTS["factorial"]).compliant


def test_policy_specified_demands_the_result_outside_the_domain(oracle: Oracle) -> None:
    contract = _with(
        CONTRACTS["gcd"],
        out_of_domain={
            "policy": "specified",
            "calls": [{"args": [0, 5], "returns": 5}, {"args": [0, 0], "raises": "ValueError"}],
        },
    )
    assert oracle.check((REFERENCES / "gcd.py").read_text(), contract).checks["out_of_domain"] is False


def test_import_that_the_sandbox_lacks_is_the_contracts_mistake(oracle: Oracle) -> None:
    contract = _with(CONTRACTS["gcd"], constraints={"imports": ["math", "numpy"]})
    with pytest.raises(UserError, match="'gcd' allows imports that the sandbox does not have: numpy"):
        oracle.check("def gcd(a, b):\n    return a", contract)


def test_metamorphic_property_calls_the_program_again(oracle: Oracle) -> None:
    contract = _with(
        CONTRACTS["gcd"],
        oracle={
            "cases": [{"args": [4, 6], "returns": 2}],
            "properties": [{"name": "commutes", "then": "(b, a)", "holds": "result == again"}],
        },
    )
    assert oracle.check((REFERENCES / "gcd.py").read_text(), contract).compliant
    lopsided = "def gcd(a, b):\n    return 2 if a <= b else 1"
    assert "commutes" in oracle.check(lopsided, contract).failures[0]


def test_property_of_a_class_sees_its_operations(oracle: Oracle) -> None:
    cache = CONTRACTS["lru_cache"]
    held = "all(v is None for v, (method, args) in zip(result, operations) if method == 'put')"
    contract = _with(
        cache,
        oracle={
            "cases": [{"args": [1], "operations": [{"method": "get", "args": [1], "returns": -1}]}],
            "properties": [{"name": "put returns nothing", "holds": held, "when": "capacity > 1"}],
        },
    )
    code = (REFERENCES / "lru_cache.py").read_text()
    assert oracle.check(code, contract).compliant
    chatty = code.replace(
        "        self.items[key] = value", "        self.items[key] = value\n        return self", 1
    )
    verdict = oracle.check(chatty, contract)
    assert "put returns nothing" in verdict.failures[0]


def test_verdicts_from_many_threads_are_those_of_one(oracle: Oracle) -> None:
    programs = [(code, CONTRACTS["gcd"]) for code in WRONG["gcd"].values()] * 3
    fresh = Oracle(oracle.pool)
    with ThreadPoolExecutor(6) as threads:
        verdicts = list(threads.map(lambda program: fresh.check(*program), programs))
    assert verdicts == [oracle.check(*program) for program in programs]


def test_argument_changed_in_place_is_seen(oracle: Oracle) -> None:
    verdict = oracle.check(WRONG["merge_sort"]["sorts in place"], CONTRACTS["merge_sort"])
    assert verdict.checks["arguments"] is False
    in_place = WRONG["merge_sort"]["sorts in place"].replace("merge_sort", "quick_sort")
    assert oracle.check(in_place, CONTRACTS["quick_sort"]).compliant


_CLEANINGS = (
    "s",
    "s.lower()",
    "s.replace(' ', '').lower()",
    "''.join(c for c in s if c.isalnum()).lower()",
    "''.join(c.lower() for c in s if c.isalnum())",
    "re.sub(r'[^a-zA-Z0-9]', '', s).lower()",
    "re.sub(r'[\\W_]+', '', s.lower())",
)


@pytest.mark.parametrize(
    "code",
    [
        *(f"import re\ndef is_palindrome(s):\n    s = {t}\n    return s == s[::-1]" for t in _CLEANINGS),
        """
def is_palindrome(s):
    i, j = 0, len(s) - 1
    while i < j:
        if not s[i].isalnum():
            i += 1
        elif not s[j].isalnum():
            j -= 1
        elif s[i].lower() != s[j].lower():
            return False
        else:
            i, j = i + 1, j - 1
    return True
""",
    ],
)
def test_every_reading_of_palindrome_is_compliant(code: str, oracle: Oracle) -> None:
    assert oracle.check(code, CONTRACTS["is_palindrome"]).failures == []


def test_peer_canons_are_compliant_and_the_wrong_generations_are_found(
    shared_data: Path, oracle: Oracle
) -> None:
    folder = shared_data / "skyt_generations"
    canons = json.loads((folder / "dev_contracts.json").read_text())
    verdicts = oracle.check_many([(c["canonical_code"], CONTRACTS[c["contract_id"]]) for c in canons])
    assert [v.failures for v in verdicts] == [[]] * 8
    with gzip.open(folder / "dev.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    programs = [(r["raw_output"], CONTRACTS[r["contract_id"]]) for r in rows]
    wrong = [c.id for (_, c), v in zip(programs, oracle.check_many(programs), strict=True) if not v.compliant]
    assert {c: wrong.count(c) for c in set(wrong)} == {"slugify": 74, "balanced_brackets": 2, "lru_cache": 1}


def test_unknown_contract_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'factorial'"):
        load_contract("factorail")
