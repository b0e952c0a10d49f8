"""What every measuring command does around the pipeline: open the run, measure, summarise, draw, finish."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from homeostat.core import threads
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record, utc_now
from homeostat.core.rundir import RunDir
from skyt import records
from skyt.canon import CanonStore, Event
from skyt.canon.history import whoever
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.metrics.summary import summarise
from skyt.records import Durability
from skyt.repair.rules import RULES_VERSION
from skyt.runs.canons import trusted_canons
from skyt.runs.config import BatchConfig, MeasureConfig
from skyt.runs.judging.assess import Assessor, versions
from skyt.runs.judging.pool import JudgePool
from skyt.runs.pipeline import measure
from skyt.runs.strength import weak_contracts

S = TypeVar("S", bound=MeasureConfig)


@dataclass(frozen=True)
class RunOptions:
    """What the user chose that changes no record: where canons live, how many processes, how to go on."""

    canon_dir: Path | None = None
    re_anchor: bool = False
    workers: int | None = None
    figures: bool = True
    durability: Durability = "process"
    contracts: Path | None = None  # the user's folder of contracts, and what is known of their strength
    fail_on_error: bool = False  # measure nothing while an output is missing

    @property
    def processes(self) -> int:
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers {self.workers}: at least one is needed")
        return self.workers or threads.cores()


def stamped(settings: S, contracts: Mapping[str, Contract]) -> S:
    """Settings with the identity of the contracts and rules they are used with."""
    hashes = {name: contracts[name].hash for name in sorted(contracts)}
    return settings.model_copy(update={"contract_hashes": hashes, "rules_version": RULES_VERSION})


def check_options(settings: MeasureConfig, options: RunOptions) -> None:
    """Refuse what measuring would refuse: a distance, canons, a machine that cannot contain programs."""
    if options.canon_dir is not None and not options.re_anchor:
        for name in settings.contract_hashes:
            CanonStore(options.canon_dir, versions()).get(name)
    _ = options.processes
    with Assessor(settings):
        pass


def measure_and_report(
    run: RunDir,
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    settings: MeasureConfig,
    options: RunOptions,
    *,
    mode: str,
    given: Mapping[str, str] | None = None,
) -> Record:
    """From generations to records, metrics and figures; returns the metrics."""
    shared = None if options.canon_dir is None else CanonStore(options.canon_dir, versions())
    if options.re_anchor:
        re_anchor(run.path, [shared] if shared else [], sorted({g.contract_id for g in generations}))
    if not rows_hold(run.path, generations):
        archive_rows(run.path)
    with JudgePool(settings, contracts, options.processes) as pool:
        measure(
            run,
            generations,
            contracts,
            pool,
            mode=mode,
            given=given,
            shared=shared,
            policy=settings.canon if isinstance(settings, BatchConfig) else "first",
            durability=options.durability,
        )
        distance = pool.distance.id
    trusted = trusted_canons(CanonStore(run.path / "canon", versions()), sorted(contracts))
    measured = measured_with(settings, distance, mode, trusted)
    if weak := weak_contracts(options.contracts, contracts):
        measured["weak_contracts"] = weak
    found = summarise(run, settings.tau, measured)
    if options.figures:
        from skyt.metrics.figures import draw_all

        draw_all(run.path, run.figures)
    run.finish()
    return found


def measured_with(
    settings: MeasureConfig, distance: str, mode: str, trusted: Mapping[str, list[str]] | None = None
) -> Record:
    """The `settings` part of the metrics record; `trusted` are canons used in spite of what was found."""
    return {
        "mode": mode,
        "evidence": settings.evidence,
        "inputs": settings.inputs,
        "seed": settings.seed,
        "distance": distance,
        "rules_version": RULES_VERSION,
        "canon": settings.canon if isinstance(settings, BatchConfig) else "first",
        "trusted_canons": dict(trusted or {}),
    }


def re_anchor(folder: Path, shared: Sequence[CanonStore], prompts: Sequence[str]) -> None:
    """Archive canons and the rows measured against them; generations stay, so nothing is paid for again."""
    for store in (CanonStore(folder / "canon", versions()), *shared):
        for prompt in prompts:
            old = _signature_of(store, prompt)
            if store.archive(prompt) is not None:
                store.note(Event(prompt, "archived", None, old, whoever(), "--re-anchor"))
    archive_rows(folder)


def _signature_of(store: CanonStore, prompt: str) -> str | None:
    """What a canon says its signature is, even if the canon is damaged: it is about to be archived."""
    try:
        return str(read_record(store.path(prompt), "canon")["canon_signature"])
    except UserError:
        return None


def archive_rows(folder: Path) -> Path | None:
    """Move the rows of a run aside, because their canon is another one now. Generations stay."""
    if not (folder / records.STORE).exists():
        return None
    archive = folder / "archive" / re.sub(r"[^0-9T]", "", utc_now())
    with records.RunStore(folder) as store:
        if not store.count():
            return None
        archive.mkdir(parents=True)
        for name in (*records.COLUMNS, records.SAMPLES):
            if (folder / name).exists():
                (folder / name).rename(archive / name)
        store.archive(archive)  # last: what stops before this is begun again
    return archive


def rows_hold(folder: Path, generations: Sequence[Generation]) -> bool:
    """Whether a run that has grown can keep its rows and add to them.

    Not if the new outputs belong between the old ones, and not for a prompt that had no canon: one of its new
    outputs may become it, and the old ones are then measured against it too.
    """
    if not (folder / records.STORE).exists():
        return True
    with records.RunStore(folder) as store:
        rows = [(*r.place, r["canon_signature"]) for r in store.samples()]
    if len(rows) >= len(generations):
        return True
    if [row[:-1] for row in rows] != [(*g.cell, g.sample) for g in generations[: len(rows)]]:
        return False
    new = {generation.contract_id for generation in generations[len(rows) :]}
    return not any(signature is None and contract in new for contract, *_, signature in rows)
