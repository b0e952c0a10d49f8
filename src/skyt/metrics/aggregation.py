"""From the samples of a ledger to tallies. In memory are distances only: four numbers for each sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Column, func, select
from sqlalchemy.engine import Connection

from homeostat.core.errors import UserError
from skyt.metrics.formulas import EVIDENCE, Tally, tally_distances
from skyt.records import RunRow, Versions
from skyt.records.store import RUN, read_runs
from skyt.records.tables import samples

_BLOCK = 10_000  # rows read together


@dataclass(frozen=True)
class Cell:
    """A prompt asked of one model at one temperature."""

    prompt_id: str
    model: str
    temperature: float


@dataclass
class Tallies:
    """The tallies of a run: by cell, by prompt, and over everything."""

    cells: dict[Cell, Tally] = field(default_factory=dict)
    prompts: dict[str, Tally] = field(default_factory=dict)
    overall: Tally = field(default_factory=Tally)
    versions: dict[str, Versions] = field(default_factory=dict)  # by prompt


def aggregate(connection: Connection, tau: float, ledger: str = RUN) -> Tallies:
    """The tallies of a ledger; refused where its versions or its distances do not compare."""
    runs = read_runs(connection, ledger)
    _check_versions(runs)
    _check_distances(connection, ledger)
    distances = _distances(connection, ledger)
    evidence = _evidence(connection, ledger)

    def tally(chosen: Iterable[RunRow], modal: int) -> Tally:
        ids = [run.run_id for run in chosen]
        found = [np.frombuffer(distances[name], dtype=np.float64).reshape(-1, 4) for name in ids]
        pre, post, compliant_pre, compliant_post = np.concatenate([np.empty((0, 4)), *found]).T
        rewritten, equivalent = (sum(evidence.get((i, level), 0) for i in ids) for level in EVIDENCE[1:])
        return tally_distances(
            pre,
            post,
            tau,
            modal=modal,
            compliant=(int(compliant_pre.sum()), int(compliant_post.sum())),
            evidence=(rewritten, equivalent),
        )

    by_run, by_prompt = (_modal(connection, ledger, by) for by in (samples.c.run_id, samples.c.prompt_id))
    result = Tallies(versions={run.prompt_id: run.versions for run in runs})
    for run in runs:
        cell = Cell(run.prompt_id, run.model, run.temperature)
        result.cells[cell] = tally([run], by_run.get(run.run_id, 0))
    for prompt in result.versions:
        own = [run for run in runs if run.prompt_id == prompt]
        result.prompts[prompt] = tally(own, by_prompt.get(prompt, 0))
    result.overall = tally(runs, sum(by_prompt.values()))
    return result


def _check_versions(runs: Iterable[RunRow]) -> None:
    versions: dict[str, Versions] = {}
    for run in runs:
        first = versions.setdefault(run.prompt_id, run.versions)
        for name, version, other in zip(Versions._fields, run.versions, first, strict=True):
            if version != other:
                raise UserError(
                    f"run {run.run_id} has {name} {version!r}, another run of {run.prompt_id!r} has "
                    f"{other!r}: versions do not compare"
                )


def _check_distances(connection: Connection, ledger: str) -> None:
    """A signature has one distance throughout a prompt, or 1.0: before there was a canon."""
    low, high = func.min(samples.c.d_pre), func.max(samples.c.d_pre)
    query = (
        select(samples.c.prompt_id, samples.c.signature_pre, low, high)
        .where(samples.c.ledger == ledger, samples.c.d_pre < 1.0)
        .group_by(samples.c.prompt_id, samples.c.signature_pre)
        .having(low < high)
        .limit(1)
    )
    found = connection.execute(query).first()
    if found is not None:
        prompt, signature, first, second = found
        raise UserError(
            f"{prompt!r}: samples with the signature {signature[:12]} have d = {first} and d = {second}; "
            f"measure their outputs anew with `homeostat code replay`"
        )


def _distances(connection: Connection, ledger: str) -> dict[str, array[float]]:
    """For each run: d before and after repair, compliant before and after, one row for each sample."""
    found = {run.run_id: array("d") for run in read_runs(connection, ledger)}
    columns = ("run_id", "d_pre", "d_post", "compliant_pre", "compliant_post")
    query = select(*(samples.c[name] for name in columns)).where(samples.c.ledger == ledger)
    for run_id, *row in connection.execution_options(yield_per=_BLOCK).execute(query):
        found[run_id].extend(row)
    return found


def _evidence(connection: Connection, ledger: str) -> dict[tuple[str, str], int]:
    """Samples that repair made canonical, by run and evidence."""
    query = (
        select(samples.c.run_id, samples.c.evidence, func.count())
        .where(samples.c.ledger == ledger, samples.c.d_pre > 0.0, samples.c.d_post == 0.0)
        .group_by(samples.c.run_id, samples.c.evidence)
    )
    return {(run_id, level): count for run_id, level, count in connection.execute(query)}


def _modal(connection: Connection, ledger: str, by: Column[Any]) -> dict[str, int]:
    """The count of the commonest signature by run or by prompt."""
    counts = (
        select(by.label("name"), func.count().label("n"))
        .where(samples.c.ledger == ledger)
        .group_by(by, samples.c.signature_pre)
        .subquery()
    )
    query = select(counts.c.name, func.max(counts.c.n)).group_by(counts.c.name)
    return {name: int(count) for name, count in connection.execute(query)}
