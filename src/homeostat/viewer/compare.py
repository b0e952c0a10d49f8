"""Two or more runs side by side: key figures, settings that differ, shared curves over each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

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
        "error": None,
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
        cells = [f and _shown(f) for f in found]
        rows.append([label, *cells, *([_change(found[0], found[-1])] if len(names) > 1 else [])])
    columns = [blocks.column("figure", names=False), *(blocks.column(name) for name in names)]
    columns += [blocks.column(f"{names[-1]} − {names[0]}")] if len(names) > 1 else []
    note = "The last column is the change from the first run to the last, and whether it is for the better."
    return blocks.table("compare-figures", "", columns, rows, note=note)


def _shown(figure: Block) -> Any:
    """The figure with its interval, in its own number format: rows of this table differ in theirs."""
    cell = blocks.interval(figure["value"], figure["low"], figure["high"])
    return {
        **(cell if isinstance(cell, dict) else {"v": cell, "lo": None, "hi": None}),
        "digits": figure["digits"],
    }


def _change(first: Block | None, last: Block | None) -> Any:
    """The difference, marked as better or worse; intervals that overlap are said to."""
    if first is None or last is None:
        return None
    if not all(isinstance(figure["value"], int | float) for figure in (first, last)):
        return None
    difference = float(last["value"]) - float(first["value"])
    tone, words = _judged(difference, first, last)
    digits = 1 if first["digits"] == "%" else first["digits"]
    scale = 100 if first["digits"] == "%" else 1
    cell = {**blocks.change(scale * difference, tone, words), "digits": digits}
    return {**cell, "unit": " points"} if scale == 100 else cell


def _judged(difference: float, first: Block, last: Block) -> tuple[Literal["better", "worse", "same"], str]:
    if difference == 0:
        return "same", "no change"
    if first["better"] is None:
        return "same", "neither better nor worse"
    better = (difference > 0) == (first["better"] == "up")
    ends = [first["low"], first["high"], last["low"], last["high"]]
    unsure = None not in ends and first["low"] <= last["high"] and last["low"] <= first["high"]
    return ("better" if better else "worse"), ("better" if better else "worse") + (
        ", but the intervals overlap" if unsure else ""
    )


def _settings(names: Sequence[str], configs: Sequence[dict[str, Any]]) -> Block:
    flat = [flatten(config) for config in configs]
    keys = list(dict.fromkeys(key for config in flat for key in config))
    rows = []
    for key in keys:
        values = [str(config[key]) if key in config else "not set" for config in flat]
        if len(set(values)) > 1:
            rows.append([key, *map(_short, values)])
    if not rows:
        return blocks.prose("None: these runs have the same settings.")
    columns = [blocks.column(name, names=False) for name in ("setting", *names)]
    return blocks.table("compare-settings", "", columns, rows)


def _short(value: str) -> str:
    """A hash by its beginning, which is enough to tell two apart."""
    return f"{value[:12]}…" if re.fullmatch(r"[0-9a-f]{40,}", value) else value


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
        digits=first["x"]["digits"],
    )
