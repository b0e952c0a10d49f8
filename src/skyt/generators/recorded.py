"""Recorded generations: one JSON object per line, plain or gzipped. Broken lines are reported and skipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from homeostat.core.errors import UserError
from skyt.generators.base import Failure, Generation, Output, Request, Source

_FIELDS: dict[str, tuple[type, ...]] = {
    "contract_id": (str,),
    "model": (str,),
    "temperature": (int, float),
    "sample": (int,),
    "raw_output": (str,),
}


@dataclass(frozen=True)
class BrokenLine:
    """A line that is not a generation, and why."""

    number: int
    problem: str


def read_generations(path: Path) -> Iterator[tuple[int, Generation | BrokenLine]]:
    """The rows of a file in order, with their line numbers; what cannot be read comes as `BrokenLine`."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _parse(number, line)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield number + 1, BrokenLine(number + 1, f"the compressed file is damaged from here on: {error}")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None


def _parse(number: int, line: bytes) -> Generation | BrokenLine:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BrokenLine(number, f"not JSON: {error}")
    if not isinstance(row, dict):
        return BrokenLine(number, f"a {type(row).__name__}, not an object")
    for name, kinds in _FIELDS.items():
        value = row.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            what = "is missing" if name not in row else f"is {value!r:.60}"
            return BrokenLine(number, f"{name!r} {what}; a row has {', '.join(_FIELDS)}")
    temperature = float(row["temperature"])
    if not 0.0 <= temperature < float("inf") or row["sample"] < 0:
        return BrokenLine(number, "temperature and sample cannot be negative or infinite")
    return Generation(row["contract_id"], row["model"], temperature, row["sample"], row["raw_output"])


class RecordedGenerator(Source):
    """Generations recorded earlier, as JSON lines (may be gzipped)."""

    kind: Literal["recorded"]
    name: str = Field(min_length=1, description="the model name in the file's rows")
    file: str

    def make(self) -> Recorded:
        rows = []
        for _, row in read_generations(Path(self.file)):
            if isinstance(row, BrokenLine):
                raise UserError(f"{self.file}, line {row.number}: {row.problem}")
            rows.append(row)
        return Recorded(self.name, rows)


class Recorded:
    """Answers requests from a file: the recorded outputs of its cell, in the file's order."""

    def __init__(self, name: str, rows: Sequence[Generation]) -> None:
        self.name = name
        self._texts: dict[tuple[str, float], deque[str]] = defaultdict(deque)
        for row in rows:
            if row.model == name:
                self._texts[row.contract_id, row.temperature].append(row.raw_output)

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        for request in requests:
            texts = self._texts[request.contract_id, request.temperature]
            if request.sample < len(texts):
                yield Output(request, texts[request.sample])
            else:
                where = f"{request.contract_id}, {self.name}, temperature {request.temperature}"
                yield Failure(request, f"only {len(texts)} outputs are recorded for {where}")
