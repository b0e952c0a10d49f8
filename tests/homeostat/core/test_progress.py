"""Progress: lines with a heartbeat where output is no terminal, one display with every bar where it is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from homeostat.core import progress as module
from homeostat.core.engine import run_tasks
from homeostat.core.progress import Bar, duration, progress, track


@pytest.fixture(autouse=True)
def as_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that an earlier test ran in this process has sent its lines to stdout."""
    monkeypatch.setattr(module._display, "lines_on_stdout", False)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_log_has_a_line_at_the_start_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("generating", total=12, done=4, unit="samples") as bar:
        bar.advance(8)
    first, last = lines(capsys)
    assert first == "generating: 4/12 samples" and last.startswith("generating: done, 12/12 samples")


def test_a_log_has_a_heartbeat_even_while_nothing_moves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOG_EVERY_S", 0.02)
    with progress("generating", total=3, unit="cells"), progress("gcd", total=20, unit="samples") as inner:
        inner.advance(5, note="loss 1.2")
        time.sleep(0.2)
    found = lines(capsys)
    beats = [line for line in found if "gcd" in line]
    assert len(beats) >= 2 and found[0] == "generating: 0/3 cells" and "done" in found[-1]
    assert re.match(
        r"generating: 0/3 cells, 0 s · gcd: 5/20 samples, 0 s, about .* left, loss 1.2", beats[-1]
    )
    time.sleep(0.1)
    assert lines(capsys) == []  # the heart stops with the work


def test_an_end_that_came_early_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), progress("generating", total=12) as bar:
        bar.advance(5)
        raise KeyboardInterrupt
    assert lines(capsys)[-1].startswith("generating: stopped, 5/12")


def test_time_left_goes_by_what_this_process_did_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = Bar("x", total=20, done=10, unit="")
    assert bar.left is None
    now[0] += 30
    bar.advance(1)
    bar.ahead(0.5)  # work under way moves the time left, not the count
    assert bar.left == pytest.approx(8.5 * 30 / 1.5) and bar.count == "11/20"
    bar.skip(4)
    assert bar.left == pytest.approx(4.5 * 30 / 1.5) and bar.count == "15/20"
    bar.ahead(100)
    assert bar.reached == 20 and bar.left == 0


def test_a_bar_inside_a_joined_one_is_a_step_of_it() -> None:
    with progress("cells", total=4, joined=True) as outer:
        with progress("samples", total=10) as inner:
            inner.advance(5)
            assert outer.reached == 0.5 and outer.done == 0
        outer.advance()
        assert outer.reached == 1


def test_tracking_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track([1, 2, 3], "windows")) == [1, 2, 3]
    assert "done, 3/3" in lines(capsys)[-1]


def test_durations_read_well() -> None:
    assert [duration(s) for s in (0.4, 59, 200, 3900)] == ["0 s", "59 s", "3 min 20 s", "1 h 05 min"]


def _noisy(item: int) -> int:
    with progress("inside a worker", total=1):
        return item


def test_workers_leave_the_display_to_whoever_started_them(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert [o.value for o in run_tasks(_noisy, [1, 2], workers=2, label="tasks")] == [1, 2]
    said = capfd.readouterr().err
    assert "tasks: done, 2/2" in said and "inside a worker" not in said


PROGRAM = textwrap.dedent(
    """
    import sys, time
    from homeostat.core.progress import lines_on_stdout, progress
    if sys.argv[1:] == ["command"]:
        lines_on_stdout()
    with progress("outer", total=2, unit="cells") as outer:
        with progress("inner", total=4, unit="samples") as inner:
            inner.advance(2)
            time.sleep(0.6)
    """
)


def run(*arguments: str, terminal: bool) -> tuple[str, str]:
    """Stdout, and what stderr got; with `terminal`, stderr is one."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "COLUMNS": "160", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # a terminal that was hung up
            break
        if not part:
            break
        said += part
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.decode(), said.decode()


def test_a_terminal_shows_both_bars_at_once() -> None:
    _, shown = run(terminal=True)
    frames = [frame for frame in shown.split("\x1b[1A") if "outer" in frame and "inner" in frame]
    assert frames and "2/4 samples" in shown and "0/2 cells" in shown


def test_a_command_writes_its_lines_to_stdout_and_a_library_to_stderr() -> None:
    out, shown = run("command", terminal=True)  # homeostat … > log
    assert "outer: 0/2 cells" in out and "outer: done" in out and "inner" in shown
    out, shown = run("command", terminal=False)
    assert "outer: done" in out and shown == ""
    out, shown = run(terminal=False)
    assert out == "" and "outer: done" in shown


def test_a_start_line_comes_before_the_work(tmp_path: Path) -> None:
    script = f"{PROGRAM}\n" + "import os; os._exit(0)"
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", script, "command"], stdout=file)
        until = time.monotonic() + 30
        while "outer" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None, "the line was there while the work was under way"
        process.wait(30)
