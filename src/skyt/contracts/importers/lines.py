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
    """The JSON objects of a file, each with the line it stands on."""
    for number, row in json_objects(path):
        where = f"{path}, line {number}"
        yield where, Problem(where, row) if isinstance(row, str) else row


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The JSON objects of a file, plain or gzipped, by line; what is wrong with a line without one."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _object(line)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield number + 1, f"the compressed file is damaged from here on: {error}"
    except OSError as error:
        raise UserError(unreadable(path, error)) from None


def _object(line: bytes) -> dict[str, Any] | str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return row if isinstance(row, dict) else f"a {type(row).__name__}, not an object"
