"""Folders of the version before: read with one note, refused nowhere, continued in their own form."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from homeostat.core.records import read_jsonl
from skyt import records
from skyt.metrics.summary import summarise_again
from skyt.records import reading
from skyt.records.ledger import Ledger

EARLIER = Path(__file__).parents[2] / "data" / "earlier"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reading, "_NOTED", set())
    shutil.copytree(EARLIER / "run", tmp_path / "run")
    return tmp_path / "run"


def test_metrics_of_an_earlier_folder_are_the_same_with_one_note(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads((run_dir / "metrics" / "repeatability_metrics.json").read_text())["metrics"]
    found = summarise_again(run_dir)
    assert json.loads(json.dumps(dict(found))) == before
    note = capsys.readouterr().err
    assert note.count("note:") == 1 and "before every row had its versions" in note
    with (run_dir / records.SUMMARY).open(newline="") as file:
        row = next(csv.DictReader(file))
    assert row["oracle_version"] == "2-py3.11" and row["distance_version"] == ""


def test_an_earlier_folder_is_continued_in_its_own_form(run_dir: Path) -> None:
    [first, *_] = records.read_samples(run_dir)
    number = Ledger(run_dir).next_sample()
    name = f"{number:06d}"
    again = first._replace(
        pre=first.pre._replace(sample_id=name, oracle_version="2-py3.11"),
        post=first.post._replace(sample_id=name),
        sample={**first.sample, "sample_id": name},
    )
    Ledger(run_dir).append([again])
    assert len(list(records.read_samples(run_dir))) == number + 1
    for file in (records.PRE, records.POST):
        widths = {len(line.split(",")) for line in (run_dir / file).read_text().splitlines()}
        assert widths == {len(records.COLUMNS[file]) - records.ADDED[file]}
    summarise_again(run_dir)


def test_new_lines_have_every_version(tmp_path: Path) -> None:
    from skyt.runs.config import BatchConfig
    from skyt.runs.measure import Surroundings
    from skyt.runs.replay import replay
    from skyt.sandbox import capability

    if not capability().contained:
        pytest.skip("this machine cannot contain code")
    replay(
        EARLIER / "generations.jsonl",
        tmp_path / "run",
        BatchConfig(),
        Surroundings(workers=1, figures=False),
    )
    names = records.Versions._fields
    for sample in read_jsonl(tmp_path / "run" / records.SAMPLES):
        assert all(sample[name] for name in names)
    for file in records.COLUMNS:
        with (tmp_path / "run" / file).open(newline="") as rows:
            for row in csv.DictReader(rows):
                assert all(row[name] for name in names), file
    metrics = json.loads((tmp_path / "run" / "metrics" / "repeatability_metrics.json").read_text())
    assert metrics["settings"]["versions"]["gcd"] == {name: sample[name] for name in names}
