"""From the samples of a ledger to tallies. In memory are distances only: four numbers for each sample."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import case, func, select
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
    distances, evidence = _distances(connection, ledger, runs)
    by_run, by_prompt = _modal_by_run(connection, ledger), _modal_by_prompt(connection, ledger)

    def tally(chosen: Iterable[RunRow], modal: int) -> Tally:
        ids = [run.run_id for run in chosen]
        found = [np.frombuffer(distances[name], dtype=np.float64).reshape(-1, 4) for name in ids]
        pre, post, compliant_pre, compliant_post = np.concatenate([np.empty((0, 4)), *found]).T
        rewritten, equivalent = (sum(evidence[i, level] for i in ids) for level in EVIDENCE[1:])
        return tally_distances(
            pre,
            post,
            tau,
            modal=modal,
            compliant=(int(compliant_pre.sum()), int(compliant_post.sum())),
            evidence=(rewritten, equivalent),
        )

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


def _distances(
    connection: Connection, ledger: str, runs: Iterable[RunRow]
) -> tuple[dict[str, array[float]], Counter[tuple[str, str]]]:
    """For each run four numbers a sample: d before and after repair, compliant before and after.

    With the count of samples that repair made canonical, by run and evidence.
    """
    found = {run.run_id: array("d") for run in runs}
    evidence: Counter[tuple[str, str]] = Counter()
    columns = ("run_id", "evidence", "d_pre", "d_post", "compliant_pre", "compliant_post")
    query = select(*(samples.c[name] for name in columns)).where(samples.c.ledger == ledger)
    for run_id, level, *row in connection.execution_options(yield_per=_BLOCK).execute(query):
        found[run_id].extend(row)
        evidence[run_id, level] += 1
    return found, evidence


def _modal_by_run(connection: Connection, ledger: str) -> dict[str, int]:
    """The count of each run's commonest signature."""
    counts = (
        select(samples.c.run_id, func.count().label("n"))
        .where(samples.c.ledger == ledger)
        .group_by(samples.c.run_id, samples.c.signature_pre)
        .subquery()
    )
    query = select(counts.c.run_id, func.max(counts.c.n)).group_by(counts.c.run_id)
    return {name: int(count) for name, count in connection.execute(query)}


def _modal_by_prompt(connection: Connection, ledger: str) -> dict[str, int]:
    """The count of each prompt's commonest signature.

    A signature has one distance throughout a prompt, or 1.0: before there was a canon.
    """
    anchored = case((samples.c.d_pre < 1.0, samples.c.d_pre))
    counts = (
        select(
            samples.c.prompt_id,
            func.count().label("n"),
            (func.min(anchored) < func.max(anchored)).label("differ"),
        )
        .where(samples.c.ledger == ledger)
        .group_by(samples.c.prompt_id, samples.c.signature_pre)
        .subquery()
    )
    query = select(counts.c.prompt_id, func.max(counts.c.n), func.count(case((counts.c.differ, 1))))
    found = {}
    for prompt, count, differ in connection.execute(query.group_by(counts.c.prompt_id)):
        if differ:
            _refuse_distances(connection, ledger, prompt)
        found[prompt] = int(count)
    return found


def _refuse_distances(connection: Connection, ledger: str, prompt: str) -> None:
    low, high = func.min(samples.c.d_pre), func.max(samples.c.d_pre)
    query = (
        select(samples.c.signature_pre, low, high)
        .where(samples.c.ledger == ledger, samples.c.prompt_id == prompt, samples.c.d_pre < 1.0)
        .group_by(samples.c.signature_pre)
        .having(low < high)
    )
    signature, first, second = connection.execute(query.limit(1)).one()
    raise UserError(
        f"{prompt!r}: samples with the signature {signature[:12]} have d = {first} and d = {second}; "
        f"measure their outputs anew with `homeostat code replay`"
    )
