"""The files of a run, written from its store: CSVs with fixed columns, and `samples.jsonl`.

A file that is there already must say what the store says, line by line, as far as it goes: otherwise it is
refused, and every file stays as it is.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

import filelock
from sqlalchemy.engine import Connection

from homeostat.core import atomic
from homeostat.core.errors import UserError
from skyt.records.columns import COLUMNS, POST, PRE, REPAIRS, RUNS, SAMPLES, STORE
from skyt.records.store import RUN, RunStore, read_runs, read_samples

_FILES = (RUNS, PRE, POST, REPAIRS, SAMPLES)


def write_files(store: RunStore) -> None:
    """Write every file of the run from one state of its store, each whole or not at all."""
    lock = filelock.FileLock(store.folder / ".files.lock")
    with lock, store.reading() as connection, ExitStack() as stack:
        earlier = {name: stack.enter_context(Earlier(store.folder / name)) for name in _FILES}
        paths = {name: stack.enter_context(atomic.replacing(store.folder / name)) for name in _FILES}
        files = {name: stack.enter_context(path.open("wb")) for name, path in paths.items()}
        for name, line in _lines(connection):
            earlier[name].check(line)
            files[name].write(line)
        for file in earlier.values():
            file.end()


def check_files(store: RunStore) -> None:
    """Refuse files that contradict the store."""
    with store.reading() as connection, ExitStack() as stack:
        earlier = {name: stack.enter_context(Earlier(store.folder / name)) for name in _FILES}
        for name, line in _lines(connection):
            earlier[name].check(line)
        for file in earlier.values():
            file.end()


def _lines(connection: Connection) -> Iterator[tuple[str, bytes]]:
    """Every line of every file, streamed."""
    for name in (RUNS, PRE, POST, REPAIRS):
        yield name, csv_line(COLUMNS[name])
    for cell in read_runs(connection, RUN):
        yield RUNS, csv_line(cell)
    for sample in read_samples(connection, RUN):
        yield PRE, csv_line(sample.pre)
        yield POST, csv_line(sample.post)
        if sample.repair is not None:
            yield REPAIRS, csv_line(sample.repair)
        record = json.dumps(sample.record, ensure_ascii=False, allow_nan=False)
        yield SAMPLES, atomic.utf8(record) + b"\n"


def csv_line(row: Sequence[Any]) -> bytes:
    """A row as one line, whatever its texts hold."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(_cell, row))
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return " ".join(value.splitlines()) if "\n" in value or "\r" in value else value
    return value


class Earlier:
    """A file from an earlier time, compared with what is written now."""

    def __init__(self, path: Path) -> None:
        self.path, self._line = path, 0
        self._file = path.open("rb") if path.exists() else None

    def __enter__(self) -> Earlier:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def check(self, line: bytes) -> None:
        """The next line must be this one, unless the file has ended."""
        found = b"" if self._file is None else self._file.readline()
        self._line += 1
        if found and found.rstrip(b"\r\n") != line.rstrip(b"\n"):
            what = _difference(self.path.name, found, line)
            way = "restore it, or delete the file to have it written anew"
            raise UserError(f"{self.path}, line {self._line}: {what}; {way}")

    def end(self) -> None:
        """Nothing may follow."""
        if self._file is not None and self._file.readline():
            raise UserError(
                f"{self.path}, line {self._line + 1}: {STORE} has no such row; delete the line, or the file"
            )


def _difference(name: str, found: bytes, right: bytes) -> str:
    """The first column or key in which a line differs from the right one."""
    texts = [data.decode("utf-8", "replace").rstrip("\r\n") for data in (found, right)]
    pairs: list[tuple[Any, Any, Any]]
    if name == SAMPLES:
        try:
            given, wanted = (json.loads(text) for text in texts)
            keys = dict.fromkeys([*wanted, *given])
            pairs = [(key, given.get(key), wanted.get(key)) for key in keys]
        except (ValueError, AttributeError):
            return "this is not a JSON object"
    else:
        rows = [next(csv.reader([text]), []) for text in texts]
        pairs = [(key, given, wanted) for key, given, wanted in zip_longest(COLUMNS[name], *rows)]
    key, value, right_value = next((pair for pair in pairs if pair[1] != pair[2]), ("", None, None))
    return f"{key} = {_short(value)}, where {STORE} has {_short(right_value)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
