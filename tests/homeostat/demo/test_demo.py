"""The demo with a tiny model: valid records, resumable after kill -9, mistakes refused before any work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.docs.givens import tiny_model

from homeostat.cli.main import app
from homeostat.core.entry import run
from homeostat.core.records import read_jsonl, read_record, validate
from homeostat.demo.cache import agreement

ANSWERS = Path(__file__).parent / "answers.jsonl"  # two answers, one of them the canon with other names
SMALL = [
    argument
    for setting in (
        f"answers={ANSWERS}",
        "cache.max_new_tokens=4",
        "cache.cases=[{question: Name a colour., type: gaussian, epsilon: 1.28}]",
        "cache.calibration_windows=16",
        "cache.calibration_len=96",
        "joint.contracts=[is_even]",
        "joint.samples=2",
        "joint.max_new_tokens=6",
        "joint.defences=[none, guard]",
    )
    for argument in ("--set", setting)
]


def demo(*arguments: str) -> int:
    """The command, in this process; its exit code."""
    with pytest.raises(SystemExit) as stop:
        run(app, ["demo", *arguments])
    return int(stop.value.code or 0)


def records(out: Path) -> tuple[object, ...]:
    logged = list(read_jsonl(out / "logs/demo.jsonl"))
    for entry in logged:
        validate(entry, "log_record")
    metrics = read_record(out / "metrics/demo_metrics.json", "metric_record")
    arms = read_record(out / "metrics/joint_metrics.json", "metric_record")["metrics"]
    status = read_record(out / "run_record.json", "run_record")["status"]
    timeless = [{k: v for k, v in e.items() if k not in ("run_id", "timestamp_utc")} for e in logged]
    return timeless, metrics["metrics"], arms, metrics["settings"], metrics["config_hash"], status


@pytest.mark.model
def test_a_killed_demo_resumes_to_the_same_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    tiny_model(tmp_path / "tiny")
    small = [*SMALL, "--set", f"model.name={tmp_path / 'tiny'}"]
    assert demo("--out", str(whole), *small) == 0
    shown = capsys.readouterr().out.replace("\n", "")
    command = [sys.executable, "-m", "homeostat", "demo", "--out", str(killed), *small]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (killed / "stages/cache-0.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "metrics/joint_metrics.json").exists()
    assert demo("--out", str(killed), *small) == 0
    assert records(killed) == records(whole)
    for stage in (whole / "stages").iterdir():
        read_record(stage, "stage_record")
    rows = read_record(whole / "metrics/demo_metrics.json", "metric_record")["metrics"]["demo.cache"]
    answers = read_record(whole / "metrics/demo_metrics.json", "metric_record")["metrics"]["demo.answers"]
    assert answers == {"n": 2, "before": 0.5, "after": 1.0} and (whole / "answers/report.html").exists()
    by_cache = {row["cache"]: row for row in rows}
    assert list(by_cache)[:2] == ["clean", "corrupted"] and list(by_cache)[3:] == ["G", "guard"]
    assert rows[2]["heuristic"]
    assert by_cache["clean"]["agreement"] == by_cache["guard"]["agreement"] == 1.0
    assert by_cache["guard"]["text"] == by_cache["clean"]["text"]
    assert by_cache["corrupted"]["perplexity"] > by_cache["clean"]["perplexity"]
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert "Clean, damaged, repaired" in page and str(whole / "report.html") in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "cache.casez=[]"], "unknown key 'cache.casez'; did you mean 'cases'"),
        (["--set", "cache.max_new_tokens=many"], "cache.max_new_tokens = 'many'"),
        (["--set", "seed"], "write it as key=value"),
        (["--set", "model.name=no-such/model"], "cannot load model 'no-such/model'"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert demo("--out", str(tmp_path / "run"), *arguments) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_agreement_counts_the_common_start() -> None:
    assert agreement([1, 2, 3, 4], [1, 2, 9, 4]) == 0.5
    assert agreement([1, 2], [1, 2]) == 1.0
    assert agreement([], [5]) == 0.0
