"""Power cuts: with `durability="full"` what was acknowledged is on the disk, whole samples only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.skyt.records.test_records import ids, sample

from skyt import records
from skyt.records import Ledger
from skyt.records import ledger as ledger_module


class Disk:
    """What would be left after a power cut: only what was synced, files and the names of files.

    Writes, syncs, truncations and deletions of the ledger are followed; `restore` builds the folder that a
    cut at this moment may leave behind. Everything that was not synced is lost, the worst that can happen.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.data: dict[str, bytes] = {}  # by name: content that was synced
        self.names: dict[str, str] = {}  # entries of the folder that were synced
        self.now: dict[str, str] = {}
        real_fsync, real_sync = os.fsync, ledger_module.sync_directory

        def fsync(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if path.is_file():
                self.data[path.name] = path.read_bytes()
            real_fsync(handle)

        def sync_directory(directory: Path) -> None:
            real_sync(directory)
            self.names = {path.name: path.name for path in directory.iterdir() if path.is_file()}

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(ledger_module, "sync_directory", sync_directory)

    def restore(self, target: Path) -> None:
        target.mkdir()
        for name in self.names:
            (target / name).write_bytes(self.data.get(name, b""))


def test_every_acknowledged_sample_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    ledger = Ledger(folder, "full")
    disk = Disk(folder, monkeypatch)
    for number in range(4):
        ledger.append([sample(number)])
        after = tmp_path / f"cut{number}"
        disk.restore(after)
        expected = [f"{n:06d}" for n in range(number + 1)]
        assert Ledger(after).count() == number + 1
        for name in (records.PRE, records.POST, records.REPAIRS):
            assert ids(after / name) == expected


@pytest.mark.parametrize("step", range(12))
def test_a_cut_in_the_middle_of_an_append_leaves_all_of_the_sample_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder = tmp_path / "run"
    ledger = Ledger(folder, "full")
    disk = Disk(folder, monkeypatch)
    ledger.append([sample(0)])
    calls = {"left": step}
    stopped: list[Any] = []

    def counting(real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if calls["left"] == 0:
                stopped.append(real)
                raise KeyboardInterrupt
            calls["left"] -= 1
            return real(*arguments, **more)

        return call

    monkeypatch.setattr(os, "fsync", counting(os.fsync))
    monkeypatch.setattr(ledger_module, "sync_directory", counting(ledger_module.sync_directory))
    with contextlib.suppress(KeyboardInterrupt):
        ledger.append([sample(1)])
    after = tmp_path / "after"
    disk.restore(after)
    count = Ledger(after).count()
    assert count in ((1, 2) if stopped else (2,))
    for name in (records.PRE, records.POST, records.REPAIRS):
        assert len(ids(after / name)) == count
    assert len((after / records.SAMPLES).read_text().splitlines()) == count


def test_without_it_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    ledger.append([sample(0)])
