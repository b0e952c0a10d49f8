"""Collecting generations: every output on disk as soon as it is there, none asked for twice.

A cell's outputs are lines `{"sample": …, "text": …}` in a separate file, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pydantic

from homeostat.core.errors import UserError
from homeostat.core.progress import Bar, progress
from skyt.generators.base import Failure, Generation, Generator, Request, sample_seed
from skyt.generators.config import GeneratorConfig
from skyt.generators.factory import make_generator


class CellJob(pydantic.BaseModel):
    """What to generate for one prompt, model and temperature, and where to keep it."""

    path: Path
    generator: GeneratorConfig
    contract_id: str
    prompt: str
    temperature: float
    n: int
    seed: int

    def requests(self) -> list[Request]:
        name = self.generator.name
        return [
            Request(
                number=sample,
                contract_id=self.contract_id,
                prompt=self.prompt,
                temperature=self.temperature,
                sample=sample,
                seed=sample_seed(self.seed, self.contract_id, name, self.temperature, sample),
            )
            for sample in range(self.n)
        ]

    def generations(self) -> list[Generation]:
        """What is on record, by sample."""
        known = _read(self.path)
        name = self.generator.name
        return [
            Generation(self.contract_id, name, self.temperature, sample, known[sample])
            for sample in sorted(known)
            if sample < self.n
        ]


def collect_cell(item: dict[str, Any]) -> list[str]:
    """Generate what a cell still lacks; returns what failed. A task for `homeostat.core.engine.run_tasks`."""
    job = CellJob.model_validate(item)
    return collect(job, _generator(json.dumps(item["generator"], sort_keys=True)))


def collect(job: CellJob, generator: Generator) -> list[str]:
    """Generate what is not on record yet, with the given generator."""
    known = _read(job.path)
    todo = [request for request in job.requests() if request.sample not in known]
    if not todo:
        return []
    label = f"{job.contract_id} · {generator.name} · t={job.temperature:g}"
    with progress(label, total=job.n, done=job.n - len(todo)) as bar:
        return asyncio.run(_collect(job.path, generator, todo, bar))


async def _collect(path: Path, generator: Generator, todo: Sequence[Request], bar: Bar) -> list[str]:
    failures = []
    async for result in generator.generate(todo):
        if isinstance(result, Failure):
            failures.append(f"{result.request.contract_id}, sample {result.request.sample}: {result.error}")
        else:
            _append(path, {"sample": result.request.sample, "text": result.text})
        bar.advance()
    return failures


@lru_cache(maxsize=1)
def _generator(config: str) -> Generator:
    """A model is loaded once for consecutive cells that use it."""
    adapter: pydantic.TypeAdapter[GeneratorConfig] = pydantic.TypeAdapter(GeneratorConfig)
    return make_generator(adapter.validate_json(config))


def _read(path: Path) -> dict[int, str]:
    """Outputs by sample. A torn last line (a process died writing it) does not count."""
    known: dict[int, str] = {}
    if not path.exists():
        return known
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
            known.setdefault(int(row["sample"]), str(row["text"]))
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _append(path: Path, row: dict[str, Any]) -> None:
    """One write, which starts on a fresh line even after a torn one."""
    line = b"\n" + json.dumps(row).encode("ascii") + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if os.write(handle, line) != len(line):
                raise OSError(28, "No space left on device")
        finally:
            os.close(handle)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
