"""The demo on the real model: valid records, resumable after kill -9, mistakes refused before any work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from homeostat.demo.cache import agreement
from homeostat.records import read_jsonl, read_record, validate

SMALL = [
    "--set",
    "cache.max_new_tokens=4",
    "--set",
    "cache.questions=[Name a colour.]",
    "--set",
    "cache.epsilons=[0.32, 1.28]",
]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "homeostat", "demo", *arguments]


def records(out: Path) -> tuple[object, ...]:
    logged = list(read_jsonl(out / "logs/demo.jsonl"))
    for entry in logged:
        validate(entry, "log_record")
    metrics = read_record(out / "metrics/demo_metrics.json", "metric_record")
    run = read_record(out / "run_record.json", "run_record")
    timeless = [{k: v for k, v in e.items() if k not in ("run_id", "timestamp_utc")} for e in logged]
    return timeless, metrics["metrics"], metrics["settings"], metrics["config_hash"], run["status"]


@pytest.mark.model
def test_a_killed_demo_resumes_to_the_same_records(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(command("--out", str(whole), *SMALL), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(whole) in done.stdout.replace("\n", "")
    process = subprocess.Popen(command("--out", str(killed), *SMALL), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (killed / "stages/cache-0-0.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "metrics").exists()
    subprocess.run(command("--out", str(killed), *SMALL), capture_output=True, check=True)
    assert records(killed) == records(whole)
    for stage in (whole / "stages").iterdir():
        read_record(stage, "stage_record")
    shares = [entry["agreement"] for entry in json.loads(json.dumps(records(whole)[1]))["demo.cache"]]
    assert shares[0] == 1.0 and shares[-1] < 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "cache.epsilonz=[1]"], "unknown key 'cache.epsilonz'; did you mean 'epsilons'"),
        (["--set", "cache.max_new_tokens=many"], "cache.max_new_tokens = 'many'"),
        (["--set", "seed"], "write it as key=value"),
        (["--set", "model.name=no-such/model"], "cannot load model 'no-such/model'"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = subprocess.run(
        command("--out", str(tmp_path / "run"), *arguments),
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_agreement_counts_the_common_start() -> None:
    assert agreement([1, 2, 3, 4], [1, 2, 9, 4]) == 0.5
    assert agreement([1, 2], [1, 2]) == 1.0
    assert agreement([], [5]) == 0.0
