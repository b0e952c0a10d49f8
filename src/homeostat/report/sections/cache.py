"""Runs of cachemedicpp: tasks under corruption, and what each defence gives back."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, column, figure, missing, section
from homeostat.report.names import ORACLE, label
from homeostat.report.reading import RunFiles
from homeostat.report.sections import robustness, stability
from homeostat.report.sections.entries import (
    HEURISTIC,
    NONE,
    by_defence,
    cell,
    figure_of,
    is_rival,
    is_shown,
    low_end,
    worded,
)
from homeostat.report.sections.system import System

TASKS = "task_metrics"
CLAIMS = (TASKS, stability.METRICS)
CAPTIONS = {
    "figA_score_vs_eps.png": "Robustness score against epsilon",
    "figB_clean_vs_overhead_pareto.png": "Clean regression against overhead",
    "figC_logit_sensitivity.png": "Logit sensitivity",
    "figD_amplification_map.png": "Amplification by layer and head",
}
TABLES = ("table_main_results", "table_ablation_summary")


def is_cache(files: RunFiles) -> bool:
    """By its metrics, or before it has any by its configuration."""
    return (
        any(name in files.metric_names() for name in CLAIMS)
        or {"corruption", "repair"} <= files.config.keys()
    )


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
        and (low := low_end(row)) is not None
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
    rows = scores.get(NONE)
    if not rows or len(rows) < 2:
        return None
    return {
        "label": "score against epsilon, no defence",
        "values": [row.get("value") for row in rows],
        "bars": False,
    }


def sections(files: RunFiles) -> Iterator[Block]:
    metrics = files.metrics(TASKS)
    if metrics is None:
        how = "homeostat cache eval"
        yield section("headline", "Result", "", [missing("metrics/task_metrics.json. It is written by", how)])
    else:
        yield _headline(metrics)
        yield robustness.curves(metrics)
        yield from robustness.recovered(metrics)
        yield robustness.overhead(metrics)
    yield stability.stability_section(files)


def _headline(metrics: Record) -> Block:
    areas = [row for row in metrics.get("robustness.auc") or [] if isinstance(row, dict)]
    gains = {
        (row.get("defence"), row.get("against")): row
        for row in metrics.get("robustness.auc_difference") or []
    }
    costs = {row.get("defence"): row for row in metrics.get("clean_regression") or []}
    shown = [row for row in areas if is_shown(str(row.get("defence")))]
    best = max(shown, key=lambda row: row.get("value") or 0, default=None)
    items = [
        figure_of(f"AUC, {label(str(row['defence']))}", row, main=row is best)
        for row in sorted(shown, key=lambda r: -(r.get("value") or 0))
    ]
    if metrics.get("ppl_clean") is not None:
        items.append(
            figure(label("ppl_clean"), metrics["ppl_clean"], note="Wikitext-2, epsilon 0", name="ppl_clean")
        )
    rows = [
        [
            row.get("defence"),
            row.get("knowledge"),
            cell(row),
            cell(gains.get((row.get("defence"), NONE))),
            cell(gains.get((row.get("defence"), HEURISTIC))),
            cell(costs.get(row.get("defence"))),
        ]
        for row in sorted(areas, key=lambda r: -(r.get("value") or 0))
    ]
    columns = [
        column("defence"),
        column("knows", help="what the defence is told besides the corrupted cache"),
        column("AUC", digits=4, help="area under the robustness curve"),
        column("AUC − no defence", digits=4, help="paired difference"),
        column("AUC − best heuristic", digits=4, help="paired difference"),
        column("clean regression", digits=4, help="robustness score lost where nothing is wrong"),
    ]
    note = "95 % bootstrap intervals over examples; differences are paired."
    rule = (metrics.get("robustness.best_heuristic") or {}).get("rule")
    parts = [blocks.figures(items), blocks.table("auc", "Every defence", columns, rows, note=note)]
    if rule:
        parts.append(blocks.prose(f"Best heuristic: {rule}."))
    lead = (
        "AUC is the area under the robustness curve: mean of clean perplexity / perplexity and "
        "accuracies, over corruption types, against epsilon. Larger is better."
    )
    return section("headline", "Result", lead, parts)


SYSTEM = System(
    name="cache",
    title="KV-cache run",
    claims=CLAIMS,
    is_here=is_cache,
    sections=sections,
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions=CAPTIONS,
    tables=TABLES,
)
