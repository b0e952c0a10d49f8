"""Recorded generations: one JSON object per line, plain or gzipped. Broken lines are reported and skipped."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from homeostat.core.errors import UserError
from skyt.contracts.importers.lines import json_objects
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
    for number, row in json_objects(path):
        yield number, BrokenLine(number, row) if isinstance(row, str) else _generation(number, row)


def _generation(number: int, row: dict[str, Any]) -> Generation | BrokenLine:
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
