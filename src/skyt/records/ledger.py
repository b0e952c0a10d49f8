"""Appending to the records of a run: all rows of a sample, or none.

Any number of processes may append to one folder. An append is a transaction over all the files: it happens
under a lock, and a rollback journal (the files' sizes before it) undoes it if the process dies half-way. With
`durability="full"` an append is on the disk when it returns.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import filelock

from homeostat.core.atomic import sync_directory, utf8
from homeostat.core.errors import UserError
from homeostat.core.records import Record, validate
from skyt.records.columns import COLUMNS, POST, PRE, REPAIRS, RUNS, SAMPLES, DistanceRow, RunRow
from skyt.records.reading import open_csv, read_rows, size_of
from skyt.records.sample import Sample

_LOCK = ".ledger.lock"
_JOURNAL = ".ledger.journal"

# What an append survives: `process` the death of this process, `full` also a power cut.
Durability = Literal["process", "full"]


class Ledger:
    """A folder of records, open for appending."""

    def __init__(self, folder: Path, durability: Durability = "process") -> None:
        self.folder = Path(folder)
        self._synced = durability == "full"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep records in {folder}: {error.strerror or error}") from error
        self._lock = filelock.FileLock(self.folder / _LOCK)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out, with whatever a dead one left half-written undone. Re-entrant."""
        with self._lock.acquire(poll_interval=0.005):
            self._roll_back()
            yield

    def append_runs(self, rows: Sequence[RunRow]) -> None:
        """Add cells; those already on record (same run_id) are left as they are."""
        with self.locked():
            known = {row["run_id"] for row in read_rows(self.folder / RUNS)}
            new = [row for row in rows if row.run_id not in known]
            if new:
                self._commit({RUNS: self._csv(RUNS, new)})

    def append(self, samples: Sequence[Sample]) -> None:
        """Add samples, all rows of all of them or nothing."""
        if not samples:
            return
        for sample in samples:
            validate(sample.record, "sample")
        with self.locked():
            self._commit(
                {
                    PRE: self._csv(PRE, [s.pre for s in samples]),
                    POST: self._csv(POST, [s.post for s in samples]),
                    REPAIRS: self._csv(REPAIRS, [row for s in samples if (row := s.repair) is not None]),
                    SAMPLES: b"".join(_json_line(s.record) for s in samples),
                }
            )

    def count(self) -> int:
        """Samples on record."""
        with self.locked():
            return sum(1 for _ in read_rows(self.folder / PRE))

    def next_sample(self) -> int:
        """The number after the last sample's. Call it inside `locked()` and append before leaving."""
        last = _last_line(self.folder / PRE)
        if last is None:
            return 0
        return int(next(csv.reader([last]))[DistanceRow._fields.index("sample_id")]) + 1

    def _csv(self, name: str, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """Rows as text, with the header if they are the file's first."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if size_of(self.folder / name) == 0:
            writer.writerow(COLUMNS[name])
        with open_csv(self.folder / name):  # refuses a file with other columns
            writer.writerows(map(_cell, row) for row in rows)
        return text.getvalue().encode("utf-8", "replace")

    def _commit(self, additions: Mapping[str, bytes]) -> None:
        """Append to all files or to none. Synced: the journal before the rows, the rows before its end."""
        sizes = {name: size_of(self.folder / name) for name in additions}
        journal = self.folder / _JOURNAL
        try:
            _append(journal, json.dumps(sizes).encode() + b"\n", self._synced)
            if self._synced:
                sync_directory(self.folder)
            for name, data in additions.items():
                _append(self.folder / name, data, self._synced)
            if self._synced and 0 in sizes.values():
                sync_directory(self.folder)
            journal.unlink()
            if self._synced:
                sync_directory(self.folder)
        except OSError as error:
            self._roll_back()
            raise UserError(f"cannot write records in {self.folder}: {error.strerror or error}") from error

    def _roll_back(self) -> None:
        """Undo an unfinished transaction. An unfinished journal means that nothing was written yet."""
        journal = self.folder / _JOURNAL
        try:
            text = journal.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        if text.endswith("\n"):
            for name, size in json.loads(text).items():
                if size_of(self.folder / name) > size:
                    os.truncate(self.folder / name, size)
                    if self._synced:
                        _sync(self.folder / name)
        journal.unlink()


def _json_line(record: Record) -> bytes:
    return utf8(json.dumps(record, ensure_ascii=False, allow_nan=False)) + b"\n"


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return " ".join(value.splitlines()) if "\n" in value or "\r" in value else value
    return value


def _append(path: Path, data: bytes, synced: bool = False) -> None:
    if not data:
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        if synced:
            os.fsync(handle)
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _last_line(path: Path) -> str | None:
    """The last row below the header, read from the end of the file."""
    size = size_of(path)
    if size == 0:
        return None
    with path.open("rb") as file:
        file.seek(max(0, size - 65536))
        lines = file.read().splitlines()
    if len(lines) < 2:  # only the header
        return None
    return lines[-1].decode("utf-8", "replace")
