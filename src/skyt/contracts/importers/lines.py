"""Task files line by line. A line that is no task is one problem; the others are read all the same."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError, unreadable


@dataclass(frozen=True)
class Problem:
    """Something that could not be imported: where it stands in the file, and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | Problem]]:
    """The JSON objects of a file, plain or gzipped, each with the line it stands on."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, _object(where, line)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = f"{path}, line {number + 1}"
        yield where, Problem(where, f"the compressed file is damaged from here on: {error}")
    except OSError as error:
        raise UserError(unreadable(path, error)) from None


def _object(where: str, line: bytes) -> dict[str, Any] | Problem:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Problem(where, f"not JSON: {error}")
    return row if isinstance(row, dict) else Problem(where, f"a {type(row).__name__}, not an object")
