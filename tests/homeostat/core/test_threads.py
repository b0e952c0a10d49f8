"""Threads: as set, else the cores that affinity and quota leave; a wait that gives the core to others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from homeostat.core import threads
from homeostat.core.errors import UserError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (threads.VARIABLE, "OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(variable, raising=False)


def groups(tmp_path: Path, line: str, files: dict[str, str]) -> list[float]:
    """The quotas that a machine with these control groups gives a process in the group of `line`."""
    (tmp_path / "groups").write_text(line + "\n")
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(threads.quotas(tmp_path / "groups", tmp_path / "mount"))


def test_the_quota_of_every_group_around_the_process_counts(tmp_path: Path) -> None:
    files = {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "400000 100000"}
    assert groups(tmp_path, "0::/a/b", files) == [4.0, 1.5]


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    files = {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}
    assert groups(tmp_path, "3:cpu,cpuacct:/a\n4:memory:/a", files) == [0.5]
    unlimited = {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n"}
    assert groups(tmp_path, "3:cpu,cpuacct:/a", unlimited) == []


@pytest.mark.parametrize(("quota", "expected"), [(0.5, 1), (1.9, 1), (1e6, None)])
def test_a_quota_is_rounded_down_to_whole_cores_but_not_to_none(
    quota: float, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threads.cores()
    monkeypatch.setattr(threads, "quotas", lambda: iter((quota,)))
    assert threads.cores() == (expected or free)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_process_that_may_use_one_core_uses_one_thread() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert threads.threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_the_setting_comes_before_everything_and_workers_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.threads() == 3
    monkeypatch.setenv(threads.VARIABLE, "5")
    assert (threads.threads(), threads.share(2), threads.share(9)) == (5, 2, 1)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_a_number_of_threads_that_is_none_is_refused_by_name(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(threads.VARIABLE, value)
    with pytest.raises(UserError, match=f"HOMEOSTAT_THREADS = '{value}': must be a whole number"):
        threads.threads()


def test_a_command_uses_the_threads_that_are_set_and_lets_them_sleep() -> None:
    ask = (
        "import os, typer\nfrom homeostat.core.entry import run\napp = typer.Typer()\n"
        "@app.command()\ndef show() -> None:\n"
        "    import torch\n    print(torch.get_num_threads(), os.environ['OMP_WAIT_POLICY'])\n"
        "run(app, [])"
    )
    environment = {**os.environ, threads.VARIABLE: "1"}
    shown = subprocess.run(
        [sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["1", "PASSIVE"]
