"""Collecting generations: every output on disk as soon as it is there, none asked for twice.

A cell's outputs are lines `{"sample": …, "text": …}` in a separate file, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path
from typing import Any

import pydantic

from homeostat.core.progress import Bar, progress
from skyt.generators.base import Failure, Generation, Generator, Request, Watched, sample_seed
from skyt.generators.config import GeneratorConfig
from skyt.generators.outputs import OutputFile


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

    def todo(self) -> list[Request]:
        """What is not on record yet."""
        known = OutputFile(self.path).read()
        return [request for request in self.requests() if request.sample not in known]

    def generations(self) -> list[Generation]:
        """What is on record, by sample."""
        known = OutputFile(self.path).read()
        name = self.generator.name
        return [
            Generation(self.contract_id, name, self.temperature, sample, known[sample])
            for sample in sorted(known)
            if sample < self.n
        ]


def collect_cell(item: dict[str, Any]) -> list[str]:
    """Generate what a cell still lacks; returns what failed. A task for `homeostat.core.engine.run_tasks`."""
    job = CellJob.model_validate(item)
    return collect(job, loaded(job.generator)) if job.todo() else []


def collect(job: CellJob, generator: Generator) -> list[str]:
    """Generate what is not on record yet, with the given generator."""
    todo = job.todo()
    if not todo:
        return []
    label = f"{job.contract_id} · {generator.name} · t={job.temperature:g}"
    with progress(label, total=job.n, done=job.n - len(todo), unit="samples") as bar:
        watched = generator if isinstance(generator, Watched) else None
        if watched:
            watched.watch(bar.ahead)
        try:
            return _run(_collect(OutputFile(job.path), generator, todo, bar))
        finally:
            if watched:
                watched.watch(None)


async def _collect(outputs: OutputFile, generator: Generator, todo: Sequence[Request], bar: Bar) -> list[str]:
    failures = []
    async with aclosing(generator.generate(todo)) as results:
        async for result in results:
            if isinstance(result, Failure):
                request = result.request
                failures.append(f"{request.contract_id}, sample {request.sample}: {result.error}")
            else:
                outputs.append(result.request.sample, result.text)
            bar.advance()
    return failures


def _run(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Run to the end; in a thread where this one has an event loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    try:
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(loop.run_until_complete, task)
            try:
                return done.result()
            except KeyboardInterrupt:
                loop.call_soon_threadsafe(task.cancel)
                raise
    finally:
        loop.close()


def loaded(config: GeneratorConfig) -> Generator:
    """A generator; a model is loaded once for consecutive cells that use it."""
    return _loaded(config.model_dump_json())


@lru_cache(maxsize=1)
def _loaded(config: str) -> Generator:
    adapter: pydantic.TypeAdapter[GeneratorConfig] = pydantic.TypeAdapter(GeneratorConfig)
    return adapter.validate_json(config).make()
