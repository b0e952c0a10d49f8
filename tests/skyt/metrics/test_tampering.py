"""Tampered files and tampered canons: each is refused in one line that names the line at fault."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.rows import read_rows

from homeostat.core.errors import UserError
from homeostat.core.records import read_jsonl
from skyt import records
from skyt.metrics.summary import summarise_again
from skyt.runs.config import BatchConfig
from skyt.runs.measure import RunOptions
from skyt.runs.replay import replay
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")
GENERATIONS = Path(__file__).parents[2] / "data" / "generations.jsonl"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tampering") / "run"
    replay(GENERATIONS, folder, BatchConfig(), RunOptions(workers=1, figures=False))
    summarise_again(folder)  # the untouched run is accepted
    return folder


def test_every_line_has_every_version(whole: Path) -> None:
    names = records.Versions._fields
    samples = list(read_jsonl(whole / records.SAMPLES))
    assert samples and all(sample[name] for sample in samples for name in names)
    for file in records.COLUMNS:
        assert all(row[name] for row in read_rows(whole / file) for name in names), file
    metrics = json.loads((whole / "metrics" / "repeatability_metrics.json").read_text())
    assert metrics["settings"]["versions"]["gcd"] == {name: samples[0][name] for name in names}


def cell(line: int, column: int, value: str) -> Callable[[str], str]:
    """Change one cell; lines count from 1, as messages do."""

    def change(text: str) -> str:
        lines = text.splitlines()
        cells = lines[line - 1].split(",")
        assert cells[column] != value
        cells[column] = value
        lines[line - 1] = ",".join(cells)
        return "\n".join(lines) + "\n"

    return change


def swap(old: str, new: str, line: int | None = None) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.splitlines()
        at = range(len(lines)) if line is None else [line - 1]
        assert any(old in lines[i] for i in at)
        for i in at:
            lines[i] = lines[i].replace(old, new)
        return "\n".join(lines) + "\n"

    return change


def drop(line: int) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.splitlines()
        del lines[line - 1]
        return "\n".join(lines) + "\n"

    return change


FILES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a version": ("runs.csv", cell(2, 7, "1"), r"runs\.csv, line 2: oracle_version = '1'"),
    "a distance before": (
        "distances_pre.csv",
        cell(3, 5, "0.01"),
        r"distances_pre\.csv, line 3: d = '0\.",
    ),
    "a canonical row": ("distances_post.csv", cell(4, 5, "0.0"), r"distances_post\.csv, line 4: d = '0\.0'"),
    "a verdict": ("distances_post.csv", cell(4, 6, "true"), r"distances_post\.csv, line 4: compliant"),
    "a row too few": ("distances_pre.csv", drop(4), r"distances_pre\.csv, line 4: run_id"),
    "an evidence": ("repairs.csv", swap("rewritten:", "equivalent:", 2), r"repairs\.csv, line 2: reason"),
    "a text": ("samples.jsonl", swap("return 1", "return 2", 3), r"samples\.jsonl, line 3: raw_output"),
    "a sample's version": (
        "samples.jsonl",
        swap('"distance_version": "levenshtein-1"', '"distance_version": "levenshtein-9"', 2),
        r"samples\.jsonl, line 2: distance_version",
    ),
    "no JSON": ("samples.jsonl", swap("{", "[", 2), r"samples\.jsonl, line 2: this is not a JSON object"),
    "a figure": (
        "metrics_summary.csv",
        cell(2, 3, "1.0"),
        r"metrics_summary\.csv, line 2: R_anchor = '1",
    ),
}
CANONS: dict[str, tuple[Callable[[str], str], str]] = {
    "its code": (swap("abs(a)", "a"), r"gcd\.json, line \d+: its code does not have its canon_signature"),
    "its contract": (
        swap('"recursion": "any"', '"recursion": "required"'),
        r"gcd\.json, line \d+: the contract in it does not have its contract_hash",
    ),
    "its prompt": (swap('"contract_id": "gcd"', '"contract_id": "lcm"'), r"gcd\.json, line 2: contract_id"),
}


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        summarise_again(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", FILES)
def test_a_tampered_file_is_refused_with_its_line(whole: Path, tmp_path: Path, name: str) -> None:
    file, change, expected = FILES[name]
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    path = folder / file
    path.write_text(change(path.read_text()))
    assert re.search(expected, refusal(folder)), refusal(folder)


@pytest.mark.parametrize("name", CANONS)
def test_a_tampered_canon_is_refused_with_its_line(whole: Path, tmp_path: Path, name: str) -> None:
    change, expected = CANONS[name]
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    path = folder / "canon" / "gcd.json"
    path.write_text(change(path.read_text()))
    found = refusal(folder)
    assert re.search(expected, found), found
    number = int(re.search(r"line (\d+)", found)[1])  # type: ignore[index]
    key = {"its code": "normalized_code", "its contract": "constraints_snapshot", "its prompt": "contract_id"}
    assert f'"{key[name]}"' in path.read_text().splitlines()[number - 1]


def test_a_canon_tampered_with_its_signature_is_not_that_of_the_samples(whole: Path, tmp_path: Path) -> None:
    from skyt.text.signature import signature

    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    path = folder / "canon" / "gcd.json"
    canon = json.loads(path.read_text())
    canon["normalized_code"] = canon["normalized_code"].replace("abs(a)", "a")
    canon["canon_signature"] = signature(canon["normalized_code"])
    path.write_text(json.dumps(canon, indent=2))
    assert re.search(r"gcd\.json is not the canon .* that the samples were measured against", refusal(folder))
