"""Runs from the first command to the last sample: failed starts, growing, local endpoints, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

from homeostat.core.entry import run as run_app
from homeostat.core.records import read_record
from skyt.cli import app
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this system cannot contain programs")
QUICK = ("--workers", "1", "--no-figures", "--set", "generator.retries=0")


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedUpstream]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with ScriptedUpstream(fenced(GCD)) as found:
        yield found


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        run_app(app, list(arguments), name="homeostat code")
    return int(stop.value.code or 0)


def ask(upstream: ScriptedUpstream, *arguments: str) -> int:
    return code("run", "gcd", "--base-url", upstream.base_url, "--model", "m", *QUICK, *arguments)


def record(folder: str) -> dict[str, Any]:
    return read_record(Path(folder) / "run_record.json", "run_record")


def samples(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "samples.jsonl").read_text().splitlines()]


def without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("run_id", "timestamp")} for row in rows]


def test_a_local_endpoint_needs_no_key(upstream: ScriptedUpstream) -> None:
    assert ask(upstream, "-n", "2") == 0
    assert record("runs/code-gcd")["status"] == "complete"


@pytest.mark.parametrize(
    "mistake",
    [
        ("--set", "generator.kind=local", "--model", "smollm3"),
        ("--base-url", "http://models.invalid/v1"),
        ("--base-url", "http://127.0.0.1:9/v1"),
        ("--set", "distance=levenstein"),
        ("--canon-dir", "canons"),
    ],
)
def test_a_start_that_is_refused_leaves_no_folder_behind(
    upstream: ScriptedUpstream, mistake: tuple[str, ...], tmp_path: Path
) -> None:
    if "--canon-dir" in mistake:
        Path("canons").mkdir()
        Path("canons/gcd.json").write_text("{}")
    if "generator.kind=local" in mistake:
        assert code("run", "gcd", "-n", "2", "--model", "smollm3") == 2
    else:
        assert ask(upstream, "-n", "2", *mistake) == 2
    assert not Path("runs").exists()


def test_a_device_that_is_not_there_leaves_no_folder_behind(upstream: ScriptedUpstream) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert code("run", "gcd", "--set", "generator.model.device=cuda") == 2
    assert not Path("runs").exists()


def test_a_model_the_endpoint_does_not_have_is_recorded_and_the_corrected_command_works(
    upstream: ScriptedUpstream,
) -> None:
    upstream.plan.extend(["!400", "!400"])
    assert ask(upstream, "-n", "2") == 1
    found = record("runs/code-gcd")
    assert found["status"] == "failed"
    assert "2 of 2 outputs are missing" in found["error"] and "HTTP 400" in found["error"]
    assert ask(upstream, "-n", "2", "--temperature", "0.2") == 0  # other settings, the same folder
    assert record("runs/code-gcd")["status"] == "complete" and not Path("runs/code-gcd-2").exists()


def test_another_try_with_other_settings_has_a_folder_of_its_own(upstream: ScriptedUpstream) -> None:
    for temperature in ("0.7", "0.2", "0.7"):
        assert ask(upstream, "-n", "2", "--temperature", temperature) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["code-gcd", "code-gcd-2"]


def test_named_folders_refuse_other_settings_by_name(
    upstream: ScriptedUpstream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(upstream, "-n", "2", "--out", "mine") == 0
    assert ask(upstream, "-n", "2", "--out", "mine", "--temperature", "0.2") == 2
    assert "temperature is 0.7 there, 0.2 here" in capsys.readouterr().err


def test_a_finished_run_grows_and_asks_only_for_what_is_new(upstream: ScriptedUpstream) -> None:
    assert ask(upstream, "-n", "3") == 0
    asked, first = len(upstream.requests), samples("runs/code-gcd")
    upstream.otherwise = fenced(GCD_RENAMED)
    assert ask(upstream, "-n", "5") == 0
    assert len([r for r in upstream.requests[asked:] if r["path"].endswith("completions")]) == 2
    grown = samples("runs/code-gcd")
    assert grown[:3] == first and len(grown) == 5
    metrics = json.loads(Path("runs/code-gcd/metrics/repeatability_metrics.json").read_text())
    assert '"N": 5' in json.dumps(metrics)
    assert ask(upstream, "-n", "4") == 0  # fewer than are there: a run of its own
    assert len(samples("runs/code-gcd-2")) == 4


def test_a_grown_run_has_the_records_of_one_that_began_with_as_many(upstream: ScriptedUpstream) -> None:
    """Also when the canon comes with the new outputs: the old ones are then measured against it."""
    for out, steps in (("grown", ("2", "4")), ("whole", ("4",))):
        upstream.plan.extend([fenced(GCD_WRONG)] * 2)
        for n in steps:
            assert ask(upstream, "-n", n, "--out", out, "--set", "generator.concurrency=1") == 0
        if out == "grown":
            assert len(list(Path("grown/archive").iterdir())) == 1
    assert without_time(samples("grown")) == without_time(samples("whole"))
    assert all(row["canon_signature"] for row in samples("grown"))


def test_a_grown_suite_has_the_records_of_one_that_began_with_as_many(upstream: ScriptedUpstream) -> None:
    matrix = {
        "contracts": ["gcd"],
        "generators": [{"kind": "openai", "name": "m", "base_url": upstream.base_url}],
        "temperatures": [0.1, 0.9],
    }
    Path("matrix.yaml").write_text(json.dumps(matrix))
    for out, steps in (("grown", ("1", "2")), ("whole", ("2",))):
        for n in steps:
            options = ("--set", f"n={n}", "--out", out, "--workers", "1", "--no-figures")
            assert code("suite", "matrix.yaml", *options) == 0
    assert without_time(samples("grown")) == without_time(samples("whole"))


def test_easy_contracts_are_found_by_name(upstream: ScriptedUpstream) -> None:
    upstream.otherwise = fenced("def is_even(n):\n    return n % 2 == 0")
    assert code("run", "is_even", "-n", "2", "--base-url", upstream.base_url, "--model", "m", *QUICK) == 0
    assert all(row["oracle_pre"]["compliant"] for row in samples("runs/code-is_even"))


def test_every_sample_is_kept_as_it_comes_and_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """The program itself, on a callable that is slow after its third answer; stopped as Ctrl-C does."""
    (tmp_path / "slow.py").write_text(
        "import time\ncalls = 0\n"
        "def answer(prompt):\n    global calls\n    calls += 1\n    time.sleep(60 if calls > 3 else 0)\n"
        f"    return {fenced(GCD)!r}\n"
    )
    target = ["--set", "generator={kind: callable, target: 'slow:answer'}"]
    words = ["code", "run", "gcd", "-n", "6", "--out", "run", *target, "--workers", "1", "--no-figures"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "homeostat", *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    kept = tmp_path / "run" / "generations" / "0000.jsonl"
    until = time.monotonic() + 60
    while (kept.read_text().count("sample") if kept.exists() else 0) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert kept.read_text().count('"sample"') == 3
    process.send_signal(signal.SIGKILL)  # a thread of the callable sleeps on: only this ends it at once
    process.wait(30)
    (tmp_path / "slow.py").write_text(f"def answer(prompt):\n    return {fenced(GCD_RENAMED)!r}\n")
    done = subprocess.run(
        [sys.executable, "-m", "homeostat", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    texts = [row["raw_output"] for row in samples(str(tmp_path / "run"))]
    assert texts == [fenced(GCD)] * 3 + [fenced(GCD_RENAMED)] * 3
