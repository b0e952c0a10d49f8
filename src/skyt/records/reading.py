"""Reading the CSV files of a run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homeostat.core.errors import UserError
from skyt.records.columns import COLUMNS


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV as dictionaries, after a check of its header; none if the file is not there."""
    with open_csv(path) as rows:
        for row in rows:
            yield dict(zip(COLUMNS[path.name], row, strict=False))


@contextmanager
def open_csv(path: Path) -> Iterator[Iterator[list[str]]]:
    """A reader of the rows below the header, which must be the fixed one."""
    if size_of(path) == 0:
        yield iter(())
        return
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        _check_header(path, tuple(next(reader)))
        yield reader


def _check_header(path: Path, header: tuple[str, ...]) -> None:
    columns = COLUMNS[path.name]
    if header == columns:
        return
    wrong = next(
        (at for at, name in enumerate(columns) if at >= len(header) or header[at] != name), len(columns)
    )
    found = repr(header[wrong]) if wrong < len(header) else "nothing"
    wanted = repr(columns[wrong]) if wrong < len(columns) else "nothing more"
    raise UserError(
        f"{path}, line 1: column {wrong + 1} is {found}, where {wanted} must be; "
        f"the columns are {', '.join(columns)}"
    )


def size_of(path: Path) -> int:
    """The size of a file, 0 if it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
