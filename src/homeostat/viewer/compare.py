"""Two or more runs side by side: key figures, settings that differ, shared curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from homeostat.report import blocks
from homeostat.report.blocks import Block, section
from homeostat.report.build import Report, key_figures
from homeostat.report.reading import RunFiles, flatten


def compare(names: Sequence[str], runs: Sequence[RunFiles], reports: Sequence[Report]) -> dict[str, Any]:
    """The data of a page, as `homeostat.report.build` makes it."""
    figures = [key_figures(files) for files in runs]
    sections = [
        section("figures", "Key figures", "", [_figures(names, figures)]),
        section("settings", "Settings that differ", "", [_settings(names, [files.config for files in runs])]),
    ]
    shared = _charts(names, reports)
    if shared:
        lead = "Colour tells the series, the dash pattern tells the run. Switch either off in the legends."
        sections.append(section("curves", "Curves", lead, shared))
    return {
        "title": "Comparison",
        "eyebrow": " · ".join(names),
        "status": "complete",
        "verdicts": [],
        "problems": [problem for files in runs for problem in files.problems],
        "sections": sections,
        "footer": "",
    }


def _figures(names: Sequence[str], figures: Sequence[Sequence[Block]]) -> Block:
    labels = list(dict.fromkeys(figure["label"] for run in figures for figure in run))
    if not labels:
        return blocks.missing("key figures: none of these runs has metrics yet")
    rows = []
    for label in labels:
        found = [next((f for f in run if f["label"] == label), None) for run in figures]
        cells = [f and blocks.interval(f["value"], f["low"], f["high"]) for f in found]
        values = [f["value"] if f else None for f in found]
        rows.append([label, *cells, *_change(values)])
    columns = ["figure", *names, *(["last − first"] if len(names) > 1 else [])]
    return blocks.table("compare-figures", "", columns, rows)


def _change(values: Sequence[Any]) -> list[float | None]:
    if len(values) < 2:
        return []
    first, last = values[0], values[-1]
    known = isinstance(first, int | float) and isinstance(last, int | float)
    return [float(last) - float(first) if known else None]


def _settings(names: Sequence[str], configs: Sequence[dict[str, Any]]) -> Block:
    flat = [flatten(config) for config in configs]
    keys = list(dict.fromkeys(key for config in flat for key in config))
    rows = []
    for key in keys:
        values = [str(config[key]) if key in config else "not set" for config in flat]
        if len(set(values)) > 1:
            rows.append([key, *values])
    if not rows:
        return blocks.prose("None: these runs have the same settings.")
    return blocks.table("compare-settings", "", ["setting", *names], rows)


def _charts(names: Sequence[str], reports: Sequence[Report]) -> list[Block]:
    """Charts and dot plots that at least two of the runs have."""
    found: dict[str, list[tuple[str, Block]]] = {}
    for name, report in zip(names, reports, strict=True):
        for part in report.data["sections"]:
            for block in part["blocks"]:
                if block["kind"] in ("chart", "dots") and not str(block["id"]).startswith("log-eval"):
                    found.setdefault(block["id"], []).append((name, block))
    merged = [_merge(same) for same in found.values() if len(same) > 1]
    return [block for block in merged if block is not None]


def _merge(same: Sequence[tuple[str, Block]]) -> Block | None:
    if same[0][1]["kind"] == "chart":
        return _overlay(same)
    return _side_by_side(same)


def _overlay(same: Sequence[tuple[str, Block]]) -> Block:
    panels: dict[tuple[str | None, str], Block] = {}
    for run, block in same:
        for panel in block["panels"]:
            joint = panels.setdefault((panel["group"], panel["title"]), {**panel, "series": []})
            joint["series"] += [{**line, "variant": run} for line in panel["series"]]
    return {**same[0][1], "panels": list(panels.values())}


def _side_by_side(same: Sequence[tuple[str, Block]]) -> Block | None:
    key = same[0][1].get("compare")
    if key is None:
        return None
    rows: dict[str, dict[str, Any]] = {}
    for run, block in same:
        for row in block["rows"]:
            rows.setdefault(row["label"], {})[run] = row["values"].get(key)
    first = same[0][1]
    return blocks.dots(
        first["id"],
        f"{first['title']}: {key}",
        [run for run, _ in same],
        rows.items(),
        x=first["x"]["label"],
        limits=tuple(first["x"]["limits"]) if first["x"]["limits"] else None,
    )
