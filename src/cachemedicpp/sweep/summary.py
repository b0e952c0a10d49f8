"""Comparing the runs of a sweep: mean over seeds with an interval, and paired differences to a reference.

`…_over_examples` are the same figures with intervals over the evaluated examples instead of the seeds: what a
sweep with one or two seeds can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cachemedicpp.eval.robustness import Array, interval
from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.tables import ablation_row, ablation_summary
from cachemedicpp.sweep.gains import counted_tasks, gains, resampled
from homeostat.core.records import Record
from homeostat.core.stats import Interval, bootstrap, paired_bootstrap
from homeostat.core.tables import PaperTable

FIGURES = ("auc", "auc_none", "auc_gain", "clean_loss", "sensitivity_ratio")
SUMMARY = "table_sweep_summary"


def run_figures(run_dir: Path, tasks: Sequence[str] | None = None) -> dict[str, float]:
    """The figures of one run that a sweep compares, all about the run's own repair and over `tasks`.

    `sensitivity_ratio`: repaired over baseline drift at the largest delta norm up to 2.
    """
    found, own = resampled(run_dir, tasks), ablation_row(run_dir)["family"]
    auc, auc_none = float(found.auc(own)[0]), float(found.auc("none")[0])
    figures = {
        "auc": auc,
        "auc_none": auc_none,
        "auc_gain": auc - auc_none,
        "clean_loss": float((found.score("none") - found.score(own))[0, 0]),
    }
    if not (run_dir / "metrics" / "stability_metrics.json").exists():  # switched off
        return figures
    points = read_metrics(run_dir, "stability_metrics")["stability.logit_sensitivity"]
    small = [p for p in points if 0 < p["delta_norm"] <= 2 and p["value"]["baseline"] > 0]
    if small:
        figures["sensitivity_ratio"] = small[-1]["value"]["cachemedic"] / small[-1]["value"]["baseline"]
    return figures


def summarise(record: Record, out: Path) -> list[Record]:
    """For each variant with a finished run: every figure over its seeds, and against the reference."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for run in record["runs"]:
        if run["ok"]:
            found.setdefault(run["variant"], {})[run["seed"]] = run_figures(
                out / run["folder"], record.get("counted")
            )
    reference = found.get(record["reference"], {})
    sampled = _gains(record, out)
    variants = []
    for name, by_seed in found.items():
        figures: Record = {}
        for figure in FIGURES:
            values = {seed: f[figure] for seed, f in by_seed.items() if figure in f}
            if not values:
                continue
            figures[figure] = _record(bootstrap(list(values.values())), len(values))
            shared = [seed for seed in values if figure in reference.get(seed, {})]
            if shared and name != record["reference"]:
                own, other = [values[s] for s in shared], [reference[s][figure] for s in shared]
                figures[f"{figure}_minus_reference"] = _record(paired_bootstrap(own, other), len(shared))
        figures |= _over_examples(
            sampled[name], sampled.get(record["reference"], {}), name == record["reference"]
        )
        variants.append({"variant": name, "seeds": sorted(by_seed), "figures": figures})
    return variants


def counted(record: Record, out: Path) -> list[str] | None:
    """The tasks every run is compared over: those that count in the reference's first finished run."""
    for run in record["runs"]:
        if run["ok"] and run["variant"] == record["reference"]:
            return counted_tasks(out / run["folder"])
    return None


def _gains(record: Record, out: Path) -> dict[str, dict[int, Array]]:
    """Resampled gains of every finished run, by variant and seed."""
    found: dict[str, dict[int, Array]] = {}
    for run in record["runs"]:
        if run["ok"]:
            folder = out / run["folder"]
            found.setdefault(run["variant"], {})[run["seed"]] = gains(
                folder, ablation_row(folder)["family"], record.get("counted")
            )
    return found


def _over_examples(own: dict[int, Array], reference: dict[int, Array], is_reference: bool) -> Record:
    """The gain, and its difference to the reference's, averaged over seeds, with intervals over examples."""
    figures = {"auc_gain_over_examples": _record(interval(np.mean(list(own.values()), axis=0)), len(own))}
    shared = [seed for seed in own if seed in reference]
    if shared and not is_reference:
        apart = np.mean([own[seed] - reference[seed] for seed in shared], axis=0)
        figures["auc_gain_minus_reference_over_examples"] = _record(interval(apart), len(shared))
    return figures


def write_tables(record: Record, out: Path, finished: Sequence[Path]) -> None:
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
    for table in (ablation_summary(finished), PaperTable(SUMMARY, caption, columns, [rows])):
        table.write(out / "paper" / "tables")


def _record(found: Interval, n: int) -> Record:
    return {**found.as_record(), "n": n}


def _cell(figure: Record | None) -> str:
    if figure is None:
        return "–"
    if figure["n"] == 1:
        return f"{figure['estimate']:.4f}"
    return f"{figure['estimate']:.4f} [{figure['low']:.4f}, {figure['high']:.4f}]"
