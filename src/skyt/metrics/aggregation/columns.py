"""Reading a CSV of fixed columns in blocks of columns: one split where that is right, else the csv module."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from homeostat.core.errors import UserError
from skyt import records

BLOCK = 4_096  # rows
Row = Sequence[str]
Columns = Sequence[Sequence[str]]


class RowError(UserError):
    """A row that breaks a rule; the message names the file, the line and the sample."""

    def __init__(self, path: Path, line: int, row: Row, problem: str) -> None:
        name = dict(zip(records.COLUMNS[path.name], row, strict=False))
        where = ", ".join(f"{key} {name[key]}" for key in ("run_id", "sample_id", "prompt_id") if key in name)
        super().__init__(f"{path}, line {line} ({where}): {problem}")


class ColumnReader(AbstractContextManager["ColumnReader"]):
    """The rows of one of the fixed files, a block at a time. A file that is not there has no rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._width = self._lacking = 0  # columns the file has, and versions that its earlier form lacks
        self._line = 2
        self._file: TextIO | None = None
        self._rows: Iterator[list[str]] | None = None  # set once quoting or foreign line ends are met

    def __enter__(self) -> ColumnReader:
        with records.open_csv(self._path):  # checks the header, and notes an earlier form
            pass
        self._width = len(records.columns_of(self._path))
        self._lacking = len(records.COLUMNS[self._path.name]) - self._width
        if self._path.exists():
            self._file = self._path.open(encoding="utf-8", newline="")
            self._file.readline()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self) -> Columns:
        """The next block as columns; an empty list at the end. Columns the file lacks are empty texts."""
        columns = self._next()
        if not columns or not self._lacking:
            return columns
        return [*columns, *([""] * len(columns[0]) for _ in range(self._lacking))]

    def _next(self) -> Columns:
        if self._file is None:
            return []
        if self._rows is None:
            lines = list(islice(self._file, BLOCK))
            columns = self._split("".join(lines))
            if columns is not None:
                self._line += len(lines)
                return columns
            self._rows = csv.reader(chain(lines, self._file))
        rows = list(islice(self._rows, BLOCK))
        for line, row in enumerate(rows, start=self._line):
            if len(row) != self._width:
                raise RowError(self._path, line, row, f"has {len(row)} columns where {self._width} are fixed")
        self._line += len(rows)
        return list(zip(*rows, strict=True))

    def _split(self, text: str) -> Columns | None:
        """Columns by one split of the whole block, or None where that would not be right.

        A mark after each line must end up in a separate column. Otherwise some row has another width.
        """
        if not text:
            return []
        if '"' in text or "\r" in text or not text.endswith("\n"):
            return None
        cells = text.replace("\n", ",\n,").split(",")
        cells.pop()  # what follows the last mark
        step = self._width + 1
        if len(cells) % step or set(cells[self._width :: step]) != {"\n"}:
            return None
        return [cells[at::step] for at in range(self._width)]
