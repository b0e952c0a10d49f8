"""Comparing the runs of a sweep: mean over seeds with an interval, and paired differences to a reference.

`…_over_examples` are the same figures with intervals over the evaluated examples instead of the seeds: what a
sweep with one or two seeds can say. Runs that evaluate the same examples share their resamples, and all are
summed up over the tasks that count in the reference, so these differences are paired by example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cachemedicpp.eval.grid import grid_cells
from cachemedicpp.eval.robustness import Array, Robustness, interval, task_scores
from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.tables import ablation_row, ablation_summary
from homeostat.core.records import Record, read_jsonl, read_record
from homeostat.core.stats import Interval, bootstrap, paired_bootstrap
from homeostat.core.tables import PaperTable

FIGURES = ("auc", "auc_none", "auc_gain", "clean_loss", "sensitivity_ratio")
SUMMARY = "table_sweep_summary"
_RESAMPLES = 2000
Measured = tuple[dict[str, float], Array]  # figures, and the repair's gain: the data, then each resample


def summarise(record: Record, out: Path) -> list[Record]:
    """For each variant with a finished run: every figure over its seeds, and against the reference."""
    found: dict[str, dict[int, Measured]] = {}
    for run in finished(record):
        measured = measure(out / run["folder"], record.get("counted"))
        found.setdefault(run["variant"], {})[run["seed"]] = measured
    reference = found.get(record["reference"], {})
    variants = []
    for name, runs in found.items():
        other = {} if name == record["reference"] else reference
        figures: Record = {}
        for figure in FIGURES:
            values = {seed: own[figure] for seed, (own, _) in runs.items() if figure in own}
            theirs = {seed: own[figure] for seed, (own, _) in other.items() if figure in own}
            shared = [seed for seed in values if seed in theirs]
            if values:
                figures[figure] = _record(bootstrap(list(values.values())), len(values))
            if shared:
                apart = paired_bootstrap([values[s] for s in shared], [theirs[s] for s in shared])
                figures[f"{figure}_minus_reference"] = _record(apart, len(shared))
        gains = [gain for _, gain in runs.values()]
        figures["auc_gain_over_examples"] = _over_examples(gains)
        if differences := [gain - other[seed][1] for seed, (_, gain) in runs.items() if seed in other]:
            figures["auc_gain_minus_reference_over_examples"] = _over_examples(differences)
        variants.append({"variant": name, "seeds": sorted(runs), "figures": figures})
    return variants


def measure(run_dir: Path, tasks: Sequence[str] | None = None) -> Measured:
    """The figures of one run that a sweep compares, all about the run's own repair and over `tasks`.

    `sensitivity_ratio`: repaired over baseline drift at the largest delta norm up to 2.
    """
    found, own = resampled(run_dir, tasks), ablation_row(run_dir)["family"]
    auc, auc_none = found.auc(own), found.auc("none")
    figures = {
        "auc": float(auc[0]),
        "auc_none": float(auc_none[0]),
        "auc_gain": float(auc[0]) - float(auc_none[0]),
        "clean_loss": float((found.score("none") - found.score(own))[0, 0]),
    }
    if (run_dir / "metrics" / "stability_metrics.json").exists():  # unless it was switched off
        points = read_metrics(run_dir, "stability_metrics")["stability.logit_sensitivity"]
        small = [p for p in points if 0 < p["delta_norm"] <= 2 and p["value"]["baseline"] > 0]
        if small:
            figures["sensitivity_ratio"] = small[-1]["value"]["cachemedic"] / small[-1]["value"]["baseline"]
    return figures, auc - auc_none


def resampled(run_dir: Path, tasks: Sequence[str] | None) -> Robustness:
    """All scores of a run over `tasks` (None: those its summary counts), with resamples of the examples."""
    record = read_record(run_dir / "metrics" / "task_metrics.json", "metric_record")
    settings = record["settings"]
    rows: dict[str, list[Record]] = {name: [] for name in settings["tasks"]}
    for row in read_jsonl(run_dir / "logs" / "eval.jsonl"):
        rows[row["task"]].append(row)
    found = [
        task_scores(name, "ppl" if f"task.{name}.ppl" in record["metrics"] else "accuracy", rows[name])
        for name in tasks or _counted_tasks(record)
        if name in rows
    ]
    return Robustness.build(found, grid_cells(settings["types"], settings["eps"]), _RESAMPLES, 0)


def counted(record: Record, out: Path) -> list[str] | None:
    """The tasks every run is compared over: those that count in the reference's first finished run."""
    for run in finished(record):
        if run["variant"] == record["reference"]:
            path = out / run["folder"] / "metrics" / "task_metrics.json"
            return _counted_tasks(read_record(path, "metric_record"))
    return None


def _counted_tasks(record: Record) -> list[str]:
    """The tasks that a run's summary counts."""
    told = record["metrics"].get("robustness.counted")
    return list(record["settings"]["tasks"] if told is None or told["all"] else told["tasks"])


def finished(record: Record) -> Iterator[Record]:
    return (run for run in record["runs"] if run["ok"])


def write_tables(record: Record, out: Path) -> None:
    """`table_ablation_summary.tex` (one row per run) and the comparison of variants (one row per variant)."""
    columns = ["Variant", "seeds", "AUC", "ΔAUC to none", "against reference", "clean loss", "sens. ratio"]
    names = ("auc", "auc_gain", "auc_minus_reference", "clean_loss", "sensitivity_ratio")
    rows = [
        [variant["variant"], str(len(variant["seeds"])), *(_cell(variant["figures"].get(n)) for n in names)]
        for variant in record["variants"]
    ]
    caption = (
        f"Sweep {record['name']}: mean over seeds with 95 % bootstrap intervals; differences to "
        f"{record['reference']} are paired by seed."
    )
    runs = ablation_summary([out / run["folder"] for run in finished(record)])
    for table in (runs, PaperTable(SUMMARY, caption, columns, [rows])):
        table.write(out / "paper" / "tables")


def _over_examples(samples: Sequence[Array]) -> Record:
    """The mean over seeds, with an interval over examples."""
    return _record(interval(np.mean(samples, axis=0)), len(samples))


def _record(found: Interval, n: int) -> Record:
    return {**found.as_record(), "n": n}


def _cell(figure: Record | None) -> str:
    if figure is None:
        return "–"
    if figure["n"] == 1:
        return f"{figure['estimate']:.4f}"
    return f"{figure['estimate']:.4f} [{figure['low']:.4f}, {figure['high']:.4f}]"
