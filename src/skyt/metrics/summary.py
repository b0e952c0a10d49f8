"""`metrics_summary.csv` and `metrics/repeatability_metrics.json` from the records of a run."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from homeostat.core import atomic, stats
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record, validate
from homeostat.core.rundir import RunDir, hold
from skyt import records
from skyt.canon import read_canon
from skyt.metrics.aggregation import Cell, Tallies, aggregate
from skyt.metrics.formulas import Tally, check_tau, details, metrics
from skyt.metrics.table import RunMetrics

METRICS = "repeatability_metrics"
_OUTDATED = [records.SUMMARY_COLUMNS.index(name) for name in ("N", "tau")]


def summarise(run: RunDir, tau: float, settings: Record) -> RunMetrics:
    """Compute every metric from the CSVs, write both files, and return the metrics record's `metrics`."""
    check_tau(tau)
    if not (run.path / records.PRE).exists():
        raise UserError(f"{run.path} has no {records.PRE}: is it the folder of a skyt run?")
    with records.Ledger(run.path).locked():
        tallies = aggregate(run.path, tau, canon_signatures(run.path / "canon"))
    atomic.write_text(run.path / records.SUMMARY, summary_csv(tallies, tau))
    found = metrics_record(tallies, tau)
    validate(found, METRICS)
    versions = {prompt: recorded._asdict() for prompt, recorded in tallies.versions.items()}
    run.write_metrics(METRICS, found, {**settings, "tau": tau, "versions": versions})
    return RunMetrics(found)


def summarise_again(run_dir: Path, tau: float | None = None) -> RunMetrics:
    """Metrics of a finished or interrupted run, from its records, with the run's own settings."""
    if not (run_dir / "run_record.json").exists():
        raise UserError(f"{run_dir} is not a run directory: it has no run_record.json")
    settings = yaml.safe_load((run_dir / "config_resolved.yaml").read_text(encoding="utf-8"))
    chosen = settings["tau"] if tau is None else tau
    with hold(run_dir):
        run = RunDir(run_dir, read_record(run_dir / "run_record.json", "run_record"))
        check_records(run_dir, chosen)
        return summarise(run, chosen, _earlier_settings(run_dir, settings))


def check_records(run_dir: Path, tau: float) -> None:
    """Refuse records that contradict each other, by file and line: rows, samples, and the summary of them."""
    if not (run_dir / records.PRE).exists():
        return
    with records.Ledger(run_dir).locked():
        tallies = aggregate(run_dir, tau, canon_signatures(run_dir / "canon"))
        if (run_dir / records.SAMPLES).exists():
            for _ in records.read_samples(run_dir):
                pass
    path = run_dir / records.SUMMARY
    wanted = list(csv.reader(io.StringIO(summary_csv(tallies, tau))))[1:]
    with records.open_csv(path) as rows:
        for line, (row, right) in enumerate(zip_longest(rows, wanted), start=2):
            if row is None or (right is not None and any(row[at] != right[at] for at in _OUTDATED)):
                return  # not there, of fewer samples or of another tau: it will be written anew
            for name, given, found in zip(records.SUMMARY_COLUMNS, row, right or (), strict=False):
                if given != found:
                    raise UserError(
                        f"{path}, line {line}: {name} = {given}, where the rows give {found}; delete the "
                        f"file if it is to be written anew"
                    )
            if right is None:
                raise UserError(f"{path}, line {line}: {row[0]!r} has no rows; delete the line")


def _earlier_settings(run_dir: Path, config: Record) -> Record:
    """The settings in the metrics record, or (for an interrupted run) those in the configuration."""
    path = run_dir / "metrics" / f"{METRICS}.json"
    if path.exists():
        return dict(read_record(path, "metric_record")["settings"])
    return {name: config[name] for name in ("evidence", "inputs", "seed", "distance", "rules_version")}


def canon_signatures(folder: Path) -> dict[str, str | None]:
    """The recorded signature of each prompt's canon, of any version: rows are checked against it."""
    found: dict[str, str | None] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        canon = read_canon(path)
        found[canon.prompt_id] = canon.canon_signature
    return found


def summary_csv(tallies: Tallies, tau: float) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, records.SUMMARY_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for prompt, tally in tallies.prompts.items():
        versions = tallies.versions[prompt]._asdict()
        writer.writerow({"prompt_id": prompt, **asdict(metrics(tally, tau)), **versions})
    return text.getvalue()


def metrics_record(tallies: Tallies, tau: float) -> Record:
    """`skyt.overall`, `skyt.prompts`, `skyt.cells`, and the tests of pre against post across prompts."""
    return {
        "skyt.overall": _figures(tallies.overall, tau),
        "skyt.prompts": [
            {"prompt_id": prompt, **_figures(tally, tau)} for prompt, tally in tallies.prompts.items()
        ],
        "skyt.cells": [{**asdict(cell), **_figures(tally, tau)} for cell, tally in _ordered(tallies)],
        "skyt.tests": _tests(tallies),
    }


def _ordered(tallies: Tallies) -> list[tuple[Cell, Tally]]:
    return list(tallies.cells.items())


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
