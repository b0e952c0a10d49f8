"""`metrics_summary.csv` and `metrics/repeatability_metrics.json` from the store of a run."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import select
from sqlalchemy.engine import Connection

from homeostat.core import atomic, stats
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record, validate
from homeostat.core.rundir import RunDir, hold
from skyt import records
from skyt.canon import read_canon
from skyt.metrics.aggregation import Tallies, aggregate
from skyt.metrics.formulas import Tally, check_tau, details, metrics
from skyt.metrics.table import RunMetrics
from skyt.records.files import Earlier, csv_line
from skyt.records.tables import samples

METRICS = "repeatability_metrics"
_OUTDATED = [records.SUMMARY_COLUMNS.index(name) for name in ("prompt_id", "N", "tau")]


def summarise(run: RunDir, tau: float, settings: Record) -> RunMetrics:
    """Write the run's files, compute every metric, and return the metrics record's `metrics`."""
    check_tau(tau)
    with records.RunStore.existing(run.path) as store:
        records.write_files(store)
        with store.reading() as connection:
            canons = _measured_against(connection, run.path / "canon")
            tallies = aggregate(connection, tau)
    lines = summary_lines(tallies, tau)
    _check_summary(run.path / records.SUMMARY, lines)
    atomic.write_bytes(run.path / records.SUMMARY, b"".join(lines))
    found = metrics_record(tallies, tau)
    validate(found, METRICS)
    versions = {prompt: recorded._asdict() for prompt, recorded in tallies.versions.items()}
    run.write_metrics(METRICS, found, {**settings, "tau": tau, "versions": versions, "canons": canons})
    return RunMetrics(found)


def summarise_again(run_dir: Path, tau: float | None = None) -> RunMetrics:
    """Metrics of a finished or interrupted run, from its store, with the run's own settings."""
    if not (run_dir / "run_record.json").exists():
        raise UserError(f"{run_dir} is not a run directory: it has no run_record.json")
    settings = yaml.safe_load((run_dir / "config_resolved.yaml").read_text(encoding="utf-8"))
    with hold(run_dir):
        run = RunDir(run_dir, read_record(run_dir / "run_record.json", "run_record"))
        return summarise(run, settings["tau"] if tau is None else tau, _earlier_settings(run_dir, settings))


def _earlier_settings(run_dir: Path, config: Record) -> Record:
    """The settings in the metrics record, or (for an interrupted run) those in the configuration."""
    path = run_dir / "metrics" / f"{METRICS}.json"
    if path.exists():
        return dict(read_record(path, "metric_record")["settings"])
    return {name: config[name] for name in ("evidence", "inputs", "seed", "distance", "rules_version")}


def _measured_against(connection: Connection, folder: Path) -> dict[str, str]:
    """The signature of each prompt's canon. Its file must be whole, and be what the samples were measured
    against."""
    columns, found = (samples.c.prompt_id, samples.c.canon_signature), {}
    for prompt, signature in connection.execute(select(*columns).distinct()):
        if signature is None:
            continue
        path, found[prompt] = folder / f"{prompt}.json", signature
        if read_canon(path).canon_signature != signature:
            raise UserError(
                f"{path} is not the canon {signature[:12]} that the samples were measured against: restore it"
            )
    return found


def _check_summary(path: Path, lines: list[bytes]) -> None:
    """A summary of the same samples at the same tau must say the same."""
    if not path.exists():
        return
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    right = list(csv.reader(line.decode() for line in lines))
    if [_kind(row) for row in rows] != [_kind(row) for row in right]:
        return  # of fewer samples or of another tau: it is written anew
    with Earlier(path) as earlier:
        for line in lines:
            earlier.check(line)


def _kind(row: list[str]) -> list[str]:
    return [row[at] for at in _OUTDATED if at < len(row)]


def summary_lines(tallies: Tallies, tau: float) -> list[bytes]:
    lines = [csv_line(records.SUMMARY_COLUMNS)]
    for prompt, tally in tallies.prompts.items():
        row = {"prompt_id": prompt, **asdict(metrics(tally, tau)), **tallies.versions[prompt]._asdict()}
        lines.append(csv_line([row[name] for name in records.SUMMARY_COLUMNS]))
    return lines


def metrics_record(tallies: Tallies, tau: float) -> Record:
    """`skyt.overall`, `skyt.prompts`, `skyt.cells`, and the tests of pre against post across prompts."""
    return {
        "skyt.overall": _figures(tallies.overall, tau),
        "skyt.prompts": [
            {"prompt_id": prompt, **_figures(tally, tau)} for prompt, tally in tallies.prompts.items()
        ],
        "skyt.cells": [{**asdict(cell), **_figures(tally, tau)} for cell, tally in tallies.cells.items()],
        "skyt.tests": _tests(tallies),
    }


def _figures(tally: Tally, tau: float) -> Record:
    return {**asdict(metrics(tally, tau)), **details(tally)}


def _tests(tallies: Tallies) -> list[dict[str, Any]]:
    """Did repair raise the canonical share? Fisher's exact test per prompt, adjusted by Holm."""
    tested = {prompt: tally for prompt, tally in tallies.prompts.items() if tally.n}
    p_values = [
        stats.fisher_exact(
            tally.canonical_post,
            tally.n - tally.canonical_post,
            tally.canonical_pre,
            tally.n - tally.canonical_pre,
        )
        for tally in tested.values()
    ]
    return [
        {"prompt_id": prompt, "test": "fisher_exact", "p": p, "p_holm": adjusted}
        for prompt, p, adjusted in zip(tested, p_values, stats.holm(p_values), strict=True)
    ]


def read_metrics(run_dir: Path) -> Record:
    """The metrics a run was summarised with."""
    path = run_dir / "metrics" / f"{METRICS}.json"
    if not path.exists():
        raise UserError(f"{run_dir} has no metrics yet: run `homeostat code metrics {run_dir}`")
    return dict(json.loads(path.read_text(encoding="utf-8"))["metrics"])
