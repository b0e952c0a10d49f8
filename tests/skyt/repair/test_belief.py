"""What evidence rests on, end to end: programs that differ from the canon inside the domain are not rescued,
whatever the rules and the oracle make of them, and the record says which call tells them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from homeostat.core.records import RecordError, validate
from skyt.contracts.contract import Contract, load_contract
from skyt.repair.rules import Facts, NormalForm, engine, normal_form
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.judging import assess
from skyt.runs.judging.assess import Assessor, prepare
from skyt.runs.measure import RunOptions
from skyt.runs.replay import replay
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")


@dataclass(frozen=True)
class Rescue:
    """A canon, a program that differs from it, and a contract whose oracle accepts both."""

    parameters: dict[str, dict[str, Any]]
    canon: str
    sample: str
    holds: str
    call: str  # how the refuting call begins

    def contract(self) -> Contract:
        return Contract.model_validate(self.data())

    def data(self) -> dict[str, Any]:
        first = [spec.get("first", 1) for spec in self.parameters.values()]
        specs = {name: {k: v for k, v in s.items() if k != "first"} for name, s in self.parameters.items()}
        types = {"int": "int", "list": "list[int]", "str": "str"}
        names: dict[str, Any] = {}
        exec(compile(self.canon, "canon", "exec"), names)  # noqa: S102 - the canon above
        return {
            "id": "rescue",
            "prompt": "a function f",
            "entry_point": {
                "kind": "function",
                "name": "f",
                "parameters": [{"name": n, "type": types[s["type"]]} for n, s in specs.items()],
            },
            "domain": {"parameters": specs},
            "oracle": {
                "cases": [{"args": first, "returns": names["f"](*first)}],
                "properties": [{"name": "holds", "holds": self.holds}],
            },
        }


TWICE = "def f(n):\n    g = (i for i in range(n))\n    a = sum(g)\n    return a + sum(g)\n"
SEARCH = """
def f(xs, n):
    for x in xs:
        try:
            n -= 1
            if x == 9:
                {leave}
        except ZeroDivisionError:
            return 20
    return 100 // n
"""
EMPTY = "def f(s):\n    if not s:\n        return {nothing}\n    return s[0] == 'a'\n"
RESCUES = {
    "a back door beyond the sizes that the oracle samples": Rescue(
        {"n": {"type": "int", "min": 0, "sample_max": 30}},
        TWICE,
        TWICE.replace("    g =", "    if n == 40:\n        return 1560\n    g ="),
        "result == n * (n - 1) // 2",
        "f(40)",
    ),
    "a division moved into a try": Rescue(
        {
            "xs": {"type": "list", "elements": {"type": "int"}, "first": [0, 9]},
            "n": {"type": "int", "min": 50, "max": 90, "first": 50},
        },
        SEARCH.format(leave="break"),
        SEARCH.format(leave="return 100 // n"),
        "True",
        "f([",
    ),
    "an empty text for False": Rescue(
        {"s": {"type": "str", "first": "abc"}},
        EMPTY.format(nothing="False"),
        EMPTY.format(nothing="''"),
        "bool(result) == s.startswith('a')",
        "f('')",
    ),
}


@pytest.fixture(scope="module", params=["rewritten", "equivalent"])
def bench(request: pytest.FixtureRequest) -> Iterator[Assessor]:
    with Assessor(MeasureConfig(evidence=request.param)) as made:
        yield made


@pytest.mark.parametrize("title", RESCUES)
def test_a_replay_does_not_rescue_what_differs_from_the_canon(title: str, tmp_path: Path) -> None:
    rescue = RESCUES[title]
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "rescue.yaml").write_text(yaml.safe_dump(rescue.data(), sort_keys=False))
    canons, rows = tmp_path / "canons.json", tmp_path / "rows.jsonl"
    canons.write_text(json.dumps([{"contract_id": "rescue", "canonical_code": rescue.canon}]))
    row = {"contract_id": "rescue", "model": "m", "temperature": 0.0, "sample": 0}
    rows.write_text(json.dumps({**row, "raw_output": rescue.sample}) + "\n")
    settings = MeasureConfig(evidence="equivalent")
    around = RunOptions(workers=1, figures=False)
    out = tmp_path / "run"
    replay(rows, out, settings, around, canons=canons, contracts_dir=tmp_path / "contracts")
    (sample,) = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert sample["oracle_pre"]["compliant"], "the oracle is meant not to see the difference"
    assert sample["evidence"] == "none" and sample["d_post"] > 0
    assert not sample["equivalence"]["equal"]
    assert sample["equivalence"]["counterexample"]["shown"].startswith(rescue.call)
    assert sample["equivalence"]["counterexample"]["shown"] in sample["reason"]


@pytest.mark.parametrize("title", RESCUES)
def test_a_wrong_rule_is_found_out_by_running_both_programs(
    title: str, bench: Assessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with rules that hold all programs for one: neither form nor verdict saves the sample."""
    monkeypatch.setattr(assess, "normal_form", lambda code, facts, rules=None: NormalForm("pass"))
    _forget(bench)
    rescue, contract = RESCUES[title], RESCUES[title].contract()
    canon = new_canon(contract, prepare(rescue.canon).text, origin="given", model=None, temperature=None)
    text = prepare(rescue.sample).text
    done = bench.repair(contract, text, canon)
    assert (done.evidence, done.text, done.steps) == ("none", text, ())
    assert (done.same_normal_form, done.same_verdict) == (True, True)
    assert done.comparison is not None and done.comparison["counterexample"]["shown"].startswith(rescue.call)
    assert done.reason.startswith("same normal form as the canon, but f(")
    _forget(bench)


def _forget(bench: Assessor) -> None:
    """Of canons the normal form is remembered."""
    bench._canon_forms.clear()


EUCLID = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
RENAMED = "def gcd(m, n):\n    while n != 0:\n        m, n = n, m % n\n    return m"


def test_the_record_of_a_rewritten_sample_has_all_three(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    row = {"contract_id": "gcd", "model": "m", "temperature": 0.0}
    lines = [{**row, "sample": i, "raw_output": text} for i, text in enumerate((EUCLID, RENAMED))]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replay(rows, tmp_path / "run", MeasureConfig(), RunOptions(workers=1, figures=False))
    samples = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert [s["evidence"] for s in samples] == ["identical", "rewritten"]
    sample = samples[1]
    assert sample["same_normal_form"] is True and sample["same_verdict"] is True
    assert sample["equivalence"]["equal"] and sample["equivalence"]["inputs"] > 1000
    assert sample["equivalence"]["from_constants"] > 0
    for field, wrong in (("same_normal_form", False), ("same_verdict", None), ("equivalence", None)):
        with pytest.raises(RecordError):
            validate({**sample, field: wrong}, "sample")


def test_a_misnamed_program_is_not_rescued(bench: Assessor) -> None:
    """Callers would not find it: whatever it computes, it is not the canon."""
    contract = load_contract("gcd")
    canon = new_canon(contract, prepare(EUCLID).text, origin="given", model=None, temperature=None)
    done = bench.repair(contract, prepare(EUCLID.replace("gcd", "compute_gcd")).text, canon)
    assert (done.evidence, done.same_verdict) == ("none", False)


def test_a_normal_form_that_is_not_python_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = NormalForm("def f(n):\n    return break")
    monkeypatch.setattr(engine, "_run", lambda *arguments: broken)
    code = "def f(n):\n    return  (n)"
    form = normal_form(code, Facts(name="f"))
    assert (form.text, form.complete) == (code, False)
    assert "not Python" in form.failure
