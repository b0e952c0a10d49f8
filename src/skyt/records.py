"""The records of a run: fixed CSV columns, and `samples.jsonl` with everything known about each sample.

Any number of processes may append to one folder. An append is a transaction over all the files: it happens
under a lock, and a rollback journal (the files' sizes before it) undoes it if the process dies half-way, so
that a sample has all of its rows or none.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import filelock

from homeostat.core.atomic import utf8
from homeostat.core.errors import UserError
from homeostat.core.records import Record, validate

RUNS = "runs.csv"
PRE = "distances_pre.csv"
POST = "distances_post.csv"
REPAIRS = "repairs.csv"
SUMMARY = "metrics_summary.csv"
SAMPLES = "samples.jsonl"
_LOCK = ".ledger.lock"
_JOURNAL = ".ledger.journal"


class RunRow(NamedTuple):
    """One cell of a run: a prompt asked of one model at one temperature."""

    run_id: str
    prompt_id: str
    mode: str
    timestamp: str
    model: str
    temperature: float
    seed: int | None
    oracle_version: str
    normalization_version: str
    contract_id: str


class DistanceRow(NamedTuple):
    """A sample's distance to the canon at one stage: `pre` or `post` repair."""

    run_id: str
    sample_id: str
    prompt_id: str
    stage: str
    signature: str
    d: float
    compliant: bool
    normalization_version: str
    timestamp: str


class RepairRow(NamedTuple):
    """One attempt to bring a sample to the canon. `reason` starts with the evidence it ended with."""

    run_id: str
    sample_id: str
    before_signature: str
    after_signature: str
    d_before: float
    d_after: float
    steps: int
    success: bool
    reason: str
    timestamp: str


SUMMARY_COLUMNS = (
    "prompt_id",
    "N",
    "R_raw",
    "R_anchor",
    "mu_pre",
    "mu_post",
    "delta_R_anchor",
    "delta_mu",
    "P_tau_pre",
    "P_tau_post",
    "delta_P_tau",
    "rescue_rate",
    "tau",
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    RUNS: RunRow._fields,
    PRE: DistanceRow._fields,
    POST: DistanceRow._fields,
    REPAIRS: RepairRow._fields,
    SUMMARY: SUMMARY_COLUMNS,
}


class SampleRecord(NamedTuple):
    """All the rows of one sample; `repair` is absent where no repair was attempted."""

    pre: DistanceRow
    post: DistanceRow
    repair: RepairRow | None
    sample: Record


class Ledger:
    """A folder of records, open for appending."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
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

    def append(self, records: Sequence[SampleRecord]) -> None:
        """Add samples, all rows of all of them or nothing."""
        if not records:
            return
        for record in records:
            validate(record.sample, "sample")
        with self.locked():
            self._commit(
                {
                    PRE: self._csv(PRE, [r.pre for r in records]),
                    POST: self._csv(POST, [r.post for r in records]),
                    REPAIRS: self._csv(REPAIRS, [r.repair for r in records if r.repair is not None]),
                    SAMPLES: b"".join(_json_line(r.sample) for r in records),
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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        path = self.folder / name
        if not path.exists() or path.stat().st_size == 0:
            writer.writerow(COLUMNS[name])
        writer.writerows([_cell(value) for value in row] for row in rows)
        return text.getvalue().encode("utf-8", "replace")

    def _commit(self, additions: Mapping[str, bytes]) -> None:
        sizes = {name: _size(self.folder / name) for name in additions}
        journal = self.folder / _JOURNAL
        try:
            _append(journal, json.dumps(sizes).encode() + b"\n")
            for name, data in additions.items():
                _append(self.folder / name, data)
            journal.unlink()
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
                if _size(self.folder / name) > size:
                    os.truncate(self.folder / name, size)
        journal.unlink()


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV as dictionaries, after a check of its header; none if the file is not there."""
    with open_csv(path) as rows:
        for row in rows:
            yield dict(zip(COLUMNS[path.name], row, strict=False))


@contextmanager
def open_csv(path: Path) -> Iterator[Iterator[list[str]]]:
    """A reader of the rows below the header, which must be the fixed one for this file's name."""
    if not path.exists():
        yield iter(())
        return
    columns = COLUMNS[path.name]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, None)
        if header is not None and tuple(header) != columns:
            raise UserError(f"{path}: the columns are {', '.join(header)}; they must be {', '.join(columns)}")
        yield reader


def _json_line(record: Record) -> bytes:
    return utf8(json.dumps(record, ensure_ascii=False, allow_nan=False)) + b"\n"


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return " ".join(value.splitlines()) if "\n" in value or "\r" in value else value
    return value


def _append(path: Path, data: bytes) -> None:
    if not data:
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
    finally:
        os.close(handle)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _last_line(path: Path) -> str | None:
    """The last row below the header, read from the end of the file."""
    size = _size(path)
    if size == 0:
        return None
    with path.open("rb") as file:
        file.seek(max(0, size - 65536))
        lines = file.read().splitlines()
    if len(lines) < 2:  # only the header
        return None
    return lines[-1].decode("utf-8", "replace")
