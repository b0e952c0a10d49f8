"""What one run has judged and repaired, the next one finds; nothing else is ever found."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest

from skyt.contracts.contract import load_contract
from skyt.generators.base import Generation
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.judging import memory
from skyt.runs.judging.assess import Assessor, prepare
from skyt.runs.judging.memory import Memory, key
from skyt.runs.judging.pool import JudgePool

CONTRACT = load_contract("gcd")
CANON = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
SAMPLE = "def gcd(x, y):\n    while y:\n        x, y = y, x % y\n    return x"


def test_values_are_found_by_their_key_alone(tmp_path: Path) -> None:
    store = Memory(tmp_path)
    store.keep({key("verdict", "c", "p"): {"compliant": True}})
    store.close()
    again = Memory(tmp_path)
    assert again.find([key("verdict", "c", "p"), key("verdict", "c", "q")]) == {
        key("verdict", "c", "p"): {"compliant": True}
    }
    assert again.find(key("repair", str(n)) for n in range(1200)) == {}


def test_other_code_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key("verdict", "c", "p")
    monkeypatch.setattr(memory, "code_version", lambda: "another")
    assert key("verdict", "c", "p") != before


def test_a_file_that_is_no_database_is_reported_and_forgotten_with_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "samples.sqlite").write_text("no database, but long enough to be looked at " * 50)
    store = Memory(tmp_path)
    assert "nothing is remembered for the next run" in capsys.readouterr().err
    store.keep({"a": 1})
    assert store.find(["a"]) == {"a": 1}
    assert Memory(None).find(["a"]) == {}


def outputs() -> list[Generation]:
    texts = [SAMPLE, f"```python\n{SAMPLE}\n```", CANON]
    return [Generation("gcd", "m", 0.5, number, text) for number, text in enumerate(texts)]


@pytest.mark.parametrize("kept", ["folder", "off"])
def test_a_program_is_judged_once_for_a_canon_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setenv(memory.VARIABLE, "off" if kept == "off" else str(tmp_path))
    text = prepare(CANON, CONTRACT).text
    canon = new_canon(CONTRACT, text, origin="given", model=None, temperature=None)
    jobs = [(output, CONTRACT, canon) for output in outputs()]
    judged: list[str] = []
    real = Assessor.judge_and_repair

    def counted(self: Assessor, output: Generation, *rest: object) -> object:
        judged.append(output.raw_output)
        return real(self, output, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Assessor, "judge_and_repair", counted)
    with JudgePool(MeasureConfig(inputs=20), {"gcd": CONTRACT}) as pool:
        first = dict(pool.samples(jobs))
        assert [s.record for s in dict(pool.samples(jobs)).values()] == [s.record for s in first.values()]
    assert len(judged) == 2  # the second is the first one's program in a fence
    assert [first[n]["raw_output"] for n in range(3)] == [output.raw_output for output in outputs()]
    assert [first[n]["d_post"] for n in range(3)] == [0.0, 0.0, 0.0]
    with JudgePool(MeasureConfig(inputs=20), {"gcd": CONTRACT}) as pool:
        again = dict(pool.samples(jobs))
    assert len(judged) == (2 if kept == "folder" else 4)
    assert [s.record for s in again.values()] == [s.record for s in first.values()]


def test_a_batch_that_is_broken_off_ends_its_judges(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("skyt.runs.judging.pool._FEW", 1)
    before = psutil.Process().children()  # of other tests in this process
    jobs = [(Generation("gcd", "m", 0.5, n, f"{SAMPLE}\n{n}"), CONTRACT, None) for n in range(40)]
    with pytest.raises(KeyboardInterrupt), JudgePool(MeasureConfig(), {"gcd": CONTRACT}, 2) as pool:
        for _ in pool.samples(jobs):
            raise KeyboardInterrupt
    gc.collect()
    assert set(psutil.Process().children()) <= set(before)
    assert capfd.readouterr().err == ""


def test_other_processes_give_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyt.runs.judging.pool._FEW", 1)
    text = prepare(CANON, CONTRACT).text
    canon = new_canon(CONTRACT, text, origin="given", model=None, temperature=None)
    jobs = [
        (output, CONTRACT, canon) for output in [*outputs(), Generation("gcd", "m", 0.5, 3, "\ud800 \x00")]
    ]
    settings = MeasureConfig(inputs=20)
    with (
        JudgePool(settings, {"gcd": CONTRACT}, 2) as several,
        JudgePool(settings, {"gcd": CONTRACT}, 1) as one,
    ):
        found, wanted = dict(several.samples(jobs)), dict(one.samples(jobs))
    assert [found[n].record for n in range(4)] == [wanted[n].record for n in range(4)]
