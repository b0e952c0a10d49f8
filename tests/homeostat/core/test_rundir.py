"""A run directory: one process at a time, resumable after kill -9, every record valid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError
from homeostat.core.records import RecordError, read_record
from homeostat.core.rundir import RunDir, open_run

# A run of eight slow stages, each logged; run as a program so that it can be killed.
PROGRAM = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from homeostat.core.config import ConfigModel
    from homeostat.core.rundir import open_run

    class Config(ConfigModel):
        stages: int = 8

    def work(run, step):
        log = run.log("eval")
        log.rewind(step)
        log.append(step, value=step * step)
        time.sleep(float(sys.argv[2]))
        return step * step

    config = Config()
    with open_run(sys.argv[1], command="test", config=config) as run:
        values = [run.once(f"stage-{s}", lambda s=s: work(run, s)) for s in range(config.stages)]
        run.write_metrics("task_metrics", {"sum": sum(values)}, {"stages": config.stages})
        run.finish()
    """
)


class Config(ConfigModel):
    seed: int = 0


def start(program: Path, out: Path, pause: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(program), str(out), str(pause)])


def outcome(out: Path) -> tuple[object, ...]:
    logged = [json.loads(line) for line in (out / "logs/eval.jsonl").read_text().splitlines()]
    metrics = json.loads((out / "metrics/task_metrics.json").read_text())
    record = read_record(out / "run_record.json", "run_record")
    values = [(entry["step"], entry["value"]) for entry in logged]
    return values, metrics["metrics"], metrics["settings"], metrics["config_hash"], record["status"]


def test_killed_and_resumed_gives_the_same_records_as_an_uninterrupted_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(program, whole, 0).wait(60) == 0
    for stage in (2, 5):
        process = start(program, killed, 0.15)
        deadline = time.monotonic() + 60
        while not (killed / f"stages/stage-{stage}.json").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.05)  # in the middle of the next stage, after its log line
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        with (killed / "logs/eval.jsonl").open("ab") as log:
            log.write(b'{"run_id": "torn')
    assert start(program, killed, 0).wait(60) == 0
    assert outcome(killed) == outcome(whole)


def test_a_directory_held_by_another_process_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = start(program, tmp_path / "run", 5)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run/run_record.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(UserError, match="another process is using"), _open(tmp_path / "run", Config()):
            pass
    finally:
        process.kill()
        process.wait()


def _open(path: Path, config: ConfigModel):  # type: ignore[no-untyped-def]
    return open_run(path, command="test", config=config)


def test_a_folder_that_is_not_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not a run directory"), _open(tmp_path, Config()):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="is a file"), _open(tmp_path / "run", Config()):
        pass


def test_a_log_record_with_a_bad_step_is_a_bug_and_is_not_written(tmp_path: Path) -> None:
    with _open(tmp_path / "run", Config()) as run:
        assert isinstance(run, RunDir)
        with pytest.raises(RecordError):
            run.log("train").append(-1)
        assert list(run.log("train").read()) == []


def test_a_stage_runs_once(tmp_path: Path) -> None:
    calls: list[int] = []
    with _open(tmp_path / "run", Config()) as run:
        for _ in range(2):
            assert run.once("s", lambda: calls.append(1) or {"x": (1, 2)}) == {"x": [1, 2]}
    assert calls == [1]
