"""Stability of a repaired cache: logit sensitivity and amplification maps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Point, figure, missing
from homeostat.report.names import colours, label
from homeostat.report.reading import RunFiles, flatten

METRICS = "stability_metrics"


def key_figures(files: RunFiles) -> list[Block]:
    """Drift at delta 1, the reference point of the literature."""
    curves = _points((files.metrics(METRICS) or {}).get("stability.logit_sensitivity"))
    return [
        figure(
            f"sensitivity, {label(name)}",
            value,
            low=low,
            high=high,
            level=0.95,
            name="sensitivity",
            better="down",
        )
        for name, points in curves.items()
        for delta, value, low, high in points
        if delta == 1.0
    ]


def measurements(files: RunFiles, metrics: Record) -> Iterator[Block]:
    yield _sensitivity(metrics)
    yield from _maps(metrics.get("stability.amplification_map"))
    settings = metrics.get("stability.settings")
    if isinstance(settings, dict):
        rows = [[name, str(value)] for name, value in flatten(settings).items()]
        yield blocks.table(
            "stability-settings", "How it was measured", ["setting", "value"], rows, folded=True
        )


def _sensitivity(metrics: Record) -> Block:
    curves = _points(metrics.get("stability.logit_sensitivity"))
    if not curves:
        return missing("logit sensitivity")
    note = (
        "Mean distance of the logits from the clean ones under random perturbations. At 0 a repair's own "
        "drift on a clean cache is measured. Below its smallest positive value each axis is linear."
    )
    part = blocks.panel("all prompts", [blocks.series(name, points) for name, points in curves.items()])
    return blocks.chart(
        "sensitivity",
        "Logit sensitivity",
        [part],
        x="delta norm",
        y="drift of logits",
        x_scale="log",
        y_scale="log",
        note=note,
        looks=colours(),
    )


def _points(rows: Any) -> dict[str, list[Point]]:
    """`[{delta_norm, value: {curve: v}, ci: {curve: [low, high]}}]` as one list of points a curve."""
    curves: dict[str, list[Point]] = {}
    for row in rows if isinstance(rows, list) else []:
        values, intervals = row.get("value"), row.get("ci")
        for name, value in values.items() if isinstance(values, dict) else ():
            ci = intervals.get(name) if isinstance(intervals, dict) else None
            low, high = ci if isinstance(ci, list) and len(ci) == 2 else (None, None)
            curves.setdefault(name, []).append((row.get("delta_norm", 0.0), value, low, high))
    return curves


def _maps(entries: Any) -> Iterator[Block]:
    """`[{layer, head, before, after_by_defence}]` as maps before and after, and as their ratios."""
    entries = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    if not entries:
        yield missing("amplification map")
        return
    layers, heads = sorted({e["layer"] for e in entries}), sorted({e["head"] for e in entries})
    names = list(dict.fromkeys(n for e in entries for n in e.get("after_by_defence") or {}))
    at = {(e["layer"], e["head"]): e for e in entries}

    def grid(value: Any) -> list[list[float | None]]:
        return [[value(at[la, h]) if (la, h) in at else None for la in layers] for h in heads]

    before = ("none", grid(lambda e: e.get("before")))
    after = [(name, grid(lambda e, n=name: (e.get("after_by_defence") or {}).get(n))) for name in names]
    change = [(name, grid(lambda e, n=name: _ratio(e, n))) for name in names]
    axes: Any = {"x": "layer", "x_ticks": layers, "y": "KV head", "y_ticks": heads}
    note = (
        "Drift of the logits over the size of a perturbation in one layer and head: median over directions."
    )
    yield blocks.heatmap(
        "amplification", "Amplification", [before, *after], value="gamma", note=note, log=True, **axes
    )
    if change:
        note = "log2 of after over before: below 0 (blue) repair damps, above 0 (red) it amplifies."
        yield blocks.heatmap(
            "change", "What repair changes", change, value="log2 ratio", note=note, centre=0.0, **axes
        )


def _ratio(entry: Record, name: str) -> float | None:
    before, after = entry.get("before"), (entry.get("after_by_defence") or {}).get(name)
    if not before or not after or before <= 0 or after <= 0:
        return None
    return math.log2(after / before)
