from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyt.canon import Canon
from skyt.contracts.contract import load_contracts
from skyt.repair.repair import MAX_RULES, Approach, Form, approach, repair
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import Assessor, prepare
from skyt.sandbox import capability
from skyt.text.distance import LEVENSHTEIN
from skyt.text.normalise import normalise

REFERENCES = Path(__file__).parents[2] / "data" / "references"
CONTRACTS = load_contracts()


class Letters:
    """Stand-in rules over words: `sort` orders letters, `drop-x` removes x; the oracle rejects any q.

    `equal` is what every comparison finds; None: all agree, but that alone is not accepted as evidence.
    """

    @staticmethod
    def apply(word: str, rule: str) -> str:
        return "".join(sorted(word)) if rule == "sort" else word.replace("x", "")

    def __init__(self, equal: bool | None = None) -> None:
        self.equal = equal is not False
        self.accepts_equivalent = equal is not None

    def normal_form(self, code: str) -> Form:
        return Form("".join(sorted(code.replace("x", ""))), ["sort", "drop-x", "sort"])

    def approach(self, code: str, canon: str) -> Approach:
        rules = self.normal_form(code).rules
        return approach(code, canon, rules, LEVENSHTEIN, self.apply)

    def verdict(self, code: str) -> tuple[bool, str]:
        return "q" not in code, str("q" in code)

    def comparison(self, code: str, other: str, most: int | None = None) -> dict[str, Any]:
        call = {"shown": "f(1)", "program": "2", "canon": "3"}
        return {"equal": self.equal, "inputs": 1000, "counterexample": None if self.equal else call}


WORDS = st.text(alphabet="abcxq", max_size=9)


@given(WORDS, WORDS, st.sampled_from([None, True, False]))
def test_repair_is_monotone_idempotent_and_bounded(code: str, canon: str, equal: bool | None) -> None:
    tools = Letters(equal)
    once = repair(code, canon, LEVENSHTEIN, tools)
    assert once.d_after <= once.d_before
    assert once.d_before == LEVENSHTEIN(code, canon).d
    assert once.d_after == LEVENSHTEIN(once.text, canon).d
    again = repair(once.text, canon, LEVENSHTEIN, tools)
    assert again.text == once.text
    assert again.d_after == once.d_after
    assert len(once.steps) <= 6 * MAX_RULES


@given(WORDS, WORDS, st.sampled_from([None, True, False]))
def test_repair_never_changes_what_the_oracle_says(code: str, canon: str, equal: bool | None) -> None:
    tools = Letters(equal)
    done = repair(code, canon, LEVENSHTEIN, tools)
    assert tools.verdict(done.text) == tools.verdict(code)
    assert (done.evidence == "none") == (done.d_after > 0)


def test_each_kind_of_evidence() -> None:
    plain = Letters()
    assert repair("abc", "abc", LEVENSHTEIN, plain).evidence == "identical"
    rewritten = repair("xcab", "abc", LEVENSHTEIN, plain)
    assert (rewritten.evidence, rewritten.text, rewritten.steps) == (
        "rewritten",
        "abc",
        ("sort", "drop-x", "sort"),
    )
    assert repair("aaaa", "abc", LEVENSHTEIN, Letters(True)).evidence == "equivalent"
    refused = repair("aaaa", "abc", LEVENSHTEIN, Letters(False))
    assert refused.evidence == "none" and refused.comparison is not None and not refused.comparison["equal"]
    assert refused.reason == "other normal form than the canon; f(1) returns 2; the canon returns 3"


@given(WORDS, WORDS)
def test_no_rule_is_believed_where_running_the_programs_refutes_it(code: str, canon: str) -> None:
    done = repair(code, canon, LEVENSHTEIN, Letters(False))
    assert done.text == code and done.steps == ()
    assert done.evidence == ("identical" if code == canon else "none")


def test_the_three_things_that_evidence_rests_on_are_part_of_the_result() -> None:
    done = repair("xcab", "abc", LEVENSHTEIN, Letters())
    assert (done.same_normal_form, done.same_verdict) == (True, True)
    assert done.comparison is not None and done.comparison["equal"]
    told = repair("xcab", "abc", LEVENSHTEIN, Letters(False))
    assert (told.evidence, told.same_normal_form, told.same_verdict) == ("none", True, True)
    assert told.reason == "same normal form as the canon, but f(1) returns 2; the canon returns 3"


def test_a_program_the_oracle_rejects_is_never_replaced_by_an_accepted_canon() -> None:
    wrong = repair("q", "abc", LEVENSHTEIN, Letters(True))
    assert wrong.evidence == "none"
    assert wrong.d_after > 0

    class Unsound(Letters):
        def normal_form(self, code: str) -> Form:
            return Form("same")

    unsound = repair("aq", "ab", LEVENSHTEIN, Unsound())
    assert unsound.evidence == "none"
    assert "oracle tells them apart" in unsound.reason or "rejected" in unsound.reason


def test_a_step_that_raises_the_distance_is_undone() -> None:
    done = repair("cxbaaa", "cbad", LEVENSHTEIN, Letters())  # dropping x helps, sorting does not
    assert done.text == "cbaaa"
    assert done.steps == ("drop-x",)


def test_what_does_not_settle_within_the_bound_is_left_alone() -> None:
    class Restless(Letters):
        def approach(self, code: str, canon: str) -> Approach:
            shorter = code[:-1]
            return Approach(shorter, LEVENSHTEIN(shorter, canon), ("cut",))

    done = repair("abcd" + "z" * 30, "abce", LEVENSHTEIN, Restless())
    assert done.text == "abcd" + "z" * 30
    assert "no fixed point" in done.reason


# The real tools from here on.

needs_sandbox = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")


@pytest.fixture(scope="module")
def bench() -> Iterator[Assessor]:
    with Assessor(MeasureConfig()) as made:
        yield made


def canon_of(contract_id: str, text: str) -> Canon:
    return new_canon(CONTRACTS[contract_id], prepare(text).text, origin="given", model=None, temperature=None)


EUCLID = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
CASES = {
    "docstrings, annotations and names": (
        "def gcd(first: int, second: int) -> int:\n    '''Greatest.'''\n    while second:\n"
        "        first, second = second, first % second\n    return first"
    ),
    "prints and demo": f"{EUCLID}\n\nprint(gcd(4, 6))",
    "main block": f"{EUCLID}\n\nif __name__ == '__main__':\n    print(gcd(4, 6))",
    "fences and prose": f"Sure!\n```python\n{EUCLID}\n```\nDone.",
}


@needs_sandbox
@pytest.mark.parametrize("name", CASES)
def test_first_rules_bring_a_sample_to_the_canon(name: str, bench: Assessor) -> None:
    canon = canon_of("gcd", EUCLID)
    done = bench.repair(CONTRACTS["gcd"], prepare(CASES[name]).text, canon)
    assert done.text == canon.normalized_code
    assert done.evidence in ("rewritten", "identical")


@needs_sandbox
def test_a_sample_without_the_entry_point_is_not_rescued_by_its_normal_form(bench: Assessor) -> None:
    done = bench.repair(
        CONTRACTS["gcd"], prepare(EUCLID.replace("gcd", "compute_gcd")).text, canon_of("gcd", EUCLID)
    )
    assert done.evidence == "none"
    assert "oracle" in done.reason


@needs_sandbox
def test_code_that_does_not_parse_fails_within_bounds(bench: Assessor) -> None:
    canon = canon_of("gcd", EUCLID)
    broken = prepare("def gcd(a, b:\n    return a")
    assert not broken.parsed
    done = bench.repair(CONTRACTS["gcd"], broken.text, canon)
    assert (done.evidence, done.text, done.steps) == ("none", broken.text, ())


class _Mutate(ast.NodeTransformer):
    """Turns the n-th comparison, arithmetic operator or small integer into another."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted

    def _hit(self) -> bool:
        self.left -= 1
        return self.left == -1

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(node.value + 1) if type(node.value) is int and self._hit() else node

    def visit_Lt(self, node: ast.Lt) -> ast.AST:
        return ast.LtE() if self._hit() else node

    def visit_LtE(self, node: ast.LtE) -> ast.AST:
        return ast.Lt() if self._hit() else node

    def visit_Eq(self, node: ast.Eq) -> ast.AST:
        return ast.NotEq() if self._hit() else node

    def visit_Add(self, node: ast.Add) -> ast.AST:
        return ast.Sub() if self._hit() else node

    def visit_Mod(self, node: ast.Mod) -> ast.AST:
        return ast.FloorDiv() if self._hit() else node

    def visit_Not(self, node: ast.Not) -> ast.AST:
        return ast.UAdd() if self._hit() else node


PROGRAMS = {path.stem: path.read_text() for path in sorted(REFERENCES.glob("*.py")) if path.stem in CONTRACTS}


@needs_sandbox
@settings(max_examples=15)
@given(name=st.sampled_from(sorted(PROGRAMS)), wanted=st.integers(0, 11))
def test_mutants_are_repaired_monotonically_and_rejected_ones_stay_away(
    name: str, wanted: int, bench: Assessor
) -> None:
    contract = CONTRACTS[name]
    canon = canon_of(name, PROGRAMS[name])
    tree = ast.parse(normalise(PROGRAMS[name]).text)
    mutant = prepare(ast.unparse(ast.fix_missing_locations(_Mutate(wanted).visit(tree)))).text
    done = bench.repair(contract, mutant, canon)
    assert done.d_after <= done.d_before
    assert bench.verdict(contract, done.text).compliant == bench.verdict(contract, mutant).compliant
    if not bench.verdict(contract, mutant).compliant:
        assert done.d_after > 0
    assert bench.repair(contract, done.text, canon).text == done.text
