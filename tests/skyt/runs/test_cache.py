"""What one run has judged and repaired, the next one finds; nothing else is ever found."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyt.contracts.contract import load_contract
from skyt.oracle.oracle import Oracle
from skyt.runs import assess, cache
from skyt.runs.assess import Assessor
from skyt.runs.cache import ResultCache, key
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig

CANON = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
SAMPLE = "def gcd(x, y):\n    while y:\n        x, y = y, x % y\n    return x"


def test_values_are_found_by_their_key_alone(tmp_path: Path) -> None:
    store = ResultCache(tmp_path)
    store.keep({key("verdict", "c", "p"): {"compliant": True}})
    store.close()
    again = ResultCache(tmp_path)
    assert again.find([key("verdict", "c", "p"), key("verdict", "c", "q")]) == {
        key("verdict", "c", "p"): {"compliant": True}
    }
    assert again.find(key("repair", str(n)) for n in range(1200)) == {}


def test_other_code_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key("verdict", "c", "p")
    monkeypatch.setattr(cache, "code_version", lambda: "another")
    assert key("verdict", "c", "p") != before


def test_a_file_that_is_no_database_keeps_nothing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept.sqlite").write_text("no database, but long enough to be looked at " * 50)
    store = ResultCache(tmp_path)
    store.keep({"a": 1})
    assert store.find(["a"]) == {}
    assert "nothing is kept" in capsys.readouterr().err


def test_a_second_run_judges_and_repairs_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    contract = load_contract("gcd")

    def work() -> object:
        with Assessor(MeasureConfig(inputs=20)) as bench:
            text = bench.prepare(SAMPLE, contract).text
            canon_text = bench.prepare(CANON, contract).text
            canon = new_canon(contract, canon_text, origin="given", model=None, temperature=None)
            done = bench.repair(contract, text, canon)
            bench.keep_repairs()
            return bench.verdict(contract, text), done, done.comparison

    first = work()

    def unwanted(*_args: object, **_kwargs: object) -> object:
        raise AssertionError("done again")

    monkeypatch.setattr(Oracle, "check_many", unwanted)
    monkeypatch.setattr(assess, "repair", unwanted)
    assert work() == first
