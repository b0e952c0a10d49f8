"""Runs of cachemedicpp: tasks under corruption, and what each defence gives back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, figure
from homeostat.report.names import ORACLE, label
from homeostat.report.reading import RunFiles
from homeostat.report.sections import robustness, stability
from homeostat.report.sections.entries import (
    HEURISTIC,
    NONE,
    by_defence,
    figure_of,
    is_rival,
    is_shown,
    worded,
)
from homeostat.report.sections.system import Field, Section, System, records, rows_of, spread

TASKS = "task_metrics"


def verdicts(files: RunFiles) -> Iterator[str]:
    """The result in a sentence or two, what does not help included."""
    metrics = files.metrics(TASKS) or {}
    scores = by_defence(metrics.get("robustness.score"))
    areas = by_defence(metrics.get("robustness.auc"))
    if NONE not in scores or NONE not in areas:
        return
    undamaged, worst = scores[NONE][0], scores[NONE][-1]
    yield (
        f"Without a defence, corruption takes the robustness score from {worded(undamaged)} with a clean "
        f"cache to {worded(worst)} at epsilon {worst.get('epsilon') or 0:g}."
    )
    rivals = {
        name: rows[0] for name, rows in areas.items() if is_rival(name) and rows[0]["value"] is not None
    }
    if rivals:
        best = max(rivals, key=lambda name: rivals[name]["value"])
        kept = scores.get(best, [{}])[-1]
        heuristic = areas.get(HEURISTIC, [None])[0]
        against = f" and {worded(heuristic)} of the best heuristic" if heuristic else ""
        yield (
            f"{label(best)} keeps {worded(kept)} there; its area under the curve is {worded(rivals[best])}, "
            f"against {worded(areas[NONE][0])} with no defence{against}."
        )
    useless = [
        str(row.get("defence"))
        for row in metrics.get("robustness.auc_difference") or []
        if row.get("against") == NONE
        and ORACLE not in str(row.get("defence"))
        and (low := spread(row)[1]) is not None
        and low <= 0
    ]
    if useless:
        yield f"No better than no defence, within the interval: {', '.join(label(name) for name in useless)}."


def key_figures(files: RunFiles) -> list[Block]:
    metrics = files.metrics(TASKS) or {}
    areas = [row for row in metrics.get("robustness.auc") or [] if is_shown(str(row.get("defence")))]
    found = [
        figure_of(f"AUC, {label(str(row.get('defence')))}", row)
        for row in sorted(areas, key=lambda r: -(r.get("value") or 0))
    ]
    if metrics.get("ppl_clean") is not None:
        found.append(figure(label("ppl_clean"), metrics["ppl_clean"], name="ppl_clean", better="down"))
    return found + stability.key_figures(files)


def sparkline(files: RunFiles) -> Block | None:
    scores = by_defence((files.metrics(TASKS) or {}).get("robustness.score"))
    values = [row.get("value") for row in scores.get(NONE, [])]
    return {"label": "score against epsilon, no defence", "values": values, "bars": False}


def _headline(files: RunFiles, metrics: Record) -> Iterator[Block]:
    def by(key: str, **wanted: str) -> dict[Any, Record]:
        """The entries of a metric by defence."""
        rows = (row for row in metrics.get(key) or [] if wanted.items() <= row.items())
        return {row.get("defence"): row for row in rows}

    differences = "robustness.auc_difference"
    gains, beaten = by(differences, against=NONE), by(differences, against=HEURISTIC)
    costs = by("clean_regression")
    areas = sorted(rows_of(metrics, "robustness.auc"), key=lambda row: -(row.get("value") or 0))
    listed = [row for row in areas if is_shown(str(row.get("defence")))]
    items = [figure_of(f"AUC, {label(str(row['defence']))}", row, main=row is listed[0]) for row in listed]
    if metrics.get("ppl_clean") is not None:
        items.append(
            figure(label("ppl_clean"), metrics["ppl_clean"], note="Wikitext-2, epsilon 0", name="ppl_clean")
        )
    yield blocks.figures(items)
    fields = (
        Field("defence", "defence"),
        Field("knows", "knowledge", help="what the defence is told besides the corrupted cache"),
        Field("AUC", lambda row: row, 4, "area under the robustness curve"),
        Field("AUC − no defence", lambda row: gains.get(row.get("defence")), 4, "paired difference"),
        Field("AUC − best heuristic", lambda row: beaten.get(row.get("defence")), 4, "paired difference"),
        Field(
            "clean regression",
            lambda row: costs.get(row.get("defence")),
            4,
            "robustness score lost where nothing is wrong",
        ),
    )
    note = "95 % bootstrap intervals over examples; differences are paired."
    yield records("auc", "Every defence", fields, areas, note=note)
    if rule := (metrics.get("robustness.best_heuristic") or {}).get("rule"):
        yield blocks.prose(f"Best heuristic: {rule}.")


SYSTEM = System(
    name="cache",
    title="KV-cache run",
    sections=(
        Section(
            "headline",
            "Result",
            _headline,
            "AUC is the area under the robustness curve: mean of clean perplexity / perplexity and "
            "accuracies, over corruption types, against epsilon. Larger is better.",
            TASKS,
            ("metrics/task_metrics.json. It is written by", "homeostat cache eval"),
        ),
        Section(
            "curves",
            "Under corruption",
            robustness.curves,
            "What is left as the corruption grows, by type and by task.",
            TASKS,
        ),
        Section(
            "recovered",
            "What repair gives back",
            robustness.recovered,
            "On Wikitext-2, by corruption type.",
            TASKS,
        ),
        Section("overhead", "Overhead", robustness.overhead, "What each defence costs.", TASKS),
        Section(
            "stability",
            "Stability",
            stability.measurements,
            "How much a small disturbance of the cache moves the next token's logits.",
            stability.METRICS,
            ("metrics/stability_metrics.json, the measurements around the clean state",),
        ),
    ),
    known=lambda files: files.config.keys() >= {"corruption", "repair"},
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions={
        "figA_score_vs_eps.png": "Robustness score against epsilon",
        "figB_clean_vs_overhead_pareto.png": "Clean regression against overhead",
        "figC_logit_sensitivity.png": "Logit sensitivity",
        "figD_amplification_map.png": "Amplification by layer and head",
    },
    tables=("table_main_results", "table_ablation_summary"),
)
