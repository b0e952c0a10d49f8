"""Reading the CSV files of a run, of the present form and of the earlier one, which lacks some versions."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homeostat.core.errors import UserError
from skyt.records.columns import ADDED, COLUMNS


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV as dictionaries, after a check of its header; none if the file is not there."""
    with open_csv(path) as rows:
        for row in rows:
            yield dict(zip(COLUMNS[path.name], row, strict=False))


def columns_of(path: Path) -> tuple[str, ...]:
    """The columns a file has: all of them, or, if it is of the earlier form, those without the versions."""
    columns = COLUMNS[path.name]
    if size_of(path) == 0:
        return columns
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header = tuple(next(csv.reader(file), ()))
    if header in (columns, columns[: -ADDED[path.name]]):
        return header
    wrong = next(
        (at for at, name in enumerate(columns) if at >= len(header) or header[at] != name), len(columns)
    )
    found = repr(header[wrong]) if wrong < len(header) else "nothing"
    wanted = repr(columns[wrong]) if wrong < len(columns) else "nothing more"
    raise UserError(
        f"{path}, line 1: column {wrong + 1} is {found}, where {wanted} must be; "
        f"the columns are {', '.join(columns)}"
    )


@contextmanager
def open_csv(path: Path) -> Iterator[Iterator[list[str]]]:
    """A reader of the rows below the header. Versions that a file of the earlier form lacks are empty."""
    columns = columns_of(path)
    if not path.exists():
        yield iter(())
        return
    lacking = len(COLUMNS[path.name]) - len(columns)
    if lacking:
        note_earlier_form(path)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        next(reader, None)
        yield ([*row, *[""] * lacking] for row in reader) if lacking else reader


_NOTED: set[Path] = set()


def note_earlier_form(path: Path) -> None:
    """Say once per folder that its files are of the earlier form, and what follows from it."""
    if path.parent not in _NOTED:
        _NOTED.add(path.parent)
        print(
            f"note: {path.parent} was written before every row had its versions; it is read as it is, with "
            f"the versions that runs.csv has. To have them in every row, measure the outputs again into a "
            f"new --out",
            file=sys.stderr,
        )


def size_of(path: Path) -> int:
    """The size of a file, 0 if it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
