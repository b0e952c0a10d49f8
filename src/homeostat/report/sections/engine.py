"""A campaign of faults in a serving engine: answers that changed, without and with the guard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, column, figure, interval, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections.system import System

METRICS = "engine_campaign"
CAPTIONS = {"engine_faults.png": "Share of answers that changed, by kind of fault"}


def is_engine(files: RunFiles) -> bool:
    return METRICS in files.metric_names()


def verdicts(files: RunFiles) -> Iterator[str]:
    arms, quiet = _arms(files), _quiet(files)
    for dtype in dict.fromkeys(arm["dtype"] for arm in arms):
        here = [arm for arm in arms if arm["dtype"] == dtype]
        bare = sum(arm["changed_without_guard"]["count"] for arm in here)
        kept = sum(arm["changed_with_guard"]["count"] for arm in here)
        asked = sum(arm["prompts"] for arm in here)
        yield f"{dtype}: of {asked} answers from damaged caches {bare} changed without guard, {kept} with it."
    for row in quiet:
        yield (
            f"{row['dtype']}: {row['false_alarms']} false alarms in {row['blocks_verified']} verified blocks "
            f"without damage; {row['changed']} of {row['prompts']} answers changed by the guard itself."
        )


def key_figures(files: RunFiles) -> list[Block]:
    found = []
    for arm in _arms(files):
        share = arm["changed_with_guard"]
        label = f"changed with guard, {arm['name']}, {arm['dtype']}"
        found.append(
            figure(
                label,
                share["estimate"],
                low=share["low"],
                high=share["high"],
                level=0.95,
                digits="%",
                better="down",
            )
        )
    return found


def sparkline(files: RunFiles) -> Block | None:
    values = [arm["changed_without_guard"]["estimate"] for arm in _arms(files)]
    if len(values) < 2:
        return None
    return {"label": "answers changed without guard, by fault", "values": values, "bars": True, "top": 1.0}


def sections(files: RunFiles) -> Iterator[Block]:
    columns = [
        column("numbers", help="the type that the cache is kept in"),
        column("fault", help="kind and severity; see docs/engines.md"),
        column("prompts"),
        column("changed without guard", digits="%", help="share of answers, 95 % interval"),
        column("changed with guard", digits="%", help="share of answers, 95 % interval"),
        column("blocks damaged"),
        column("blocks found"),
        column("blocks recomputed"),
    ]
    rows = [
        [
            arm["dtype"],
            arm["name"],
            arm["prompts"],
            _cell(arm["changed_without_guard"]),
            _cell(arm["changed_with_guard"]),
            arm["blocks_damaged"],
            arm["blocks_found"],
            arm["blocks_recomputed"],
        ]
        for arm in _arms(files)
    ]
    lead = (
        "Blocks of a shared prefix were damaged in a running engine's paged cache; then prompts came in that "
        "found it in the prefix cache. An answer changed if it differs from the one without damage."
    )
    shown = [blocks.table("faults", "Every fault", columns, rows)]
    names = (
        "numbers",
        "prompts",
        "answers changed",
        "blocks verified",
        "false alarms",
        "without fingerprint",
    )
    keys = ("dtype", "prompts", "changed", "blocks_verified", "false_alarms", "unknown")
    quiet = [[row[key] for key in keys] for row in _quiet(files)]
    shown.append(blocks.table("quiet", "The guard without damage", [column(name) for name in names], quiet))
    yield section("engine", "Faults in a serving engine", lead, shown)


def _arms(files: RunFiles) -> list[Record]:
    return _rows(files, "engine.faults")


def _quiet(files: RunFiles) -> list[Record]:
    return _rows(files, "engine.clean")


def _rows(files: RunFiles, key: str) -> list[Record]:
    rows = (files.metrics(METRICS) or {}).get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _cell(share: Record) -> Any:
    return interval(share["estimate"], share["low"], share["high"])


SYSTEM = System(
    name="engine",
    title="engine campaign",
    claims=(METRICS,),
    is_here=is_engine,
    sections=sections,
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions=CAPTIONS,
)
