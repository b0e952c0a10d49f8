"""A campaign of faults in a serving engine: answers that changed, without and with the guard."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.core.records import Record
from homeostat.report.blocks import Block
from homeostat.report.reading import RunFiles
from homeostat.report.sections.system import Field, Section, System, percent, records, rows_of

METRICS = "engine_campaign"
_SHARE = "share of answers, 95 % interval"
_FAULTS = (
    Field("numbers", "dtype", help="the type that the cache is kept in"),
    Field("fault", "name", help="kind and severity; see docs/engines.md"),
    Field("prompts", "prompts"),
    Field("changed without guard", "changed_without_guard", "%", _SHARE),
    Field("changed with guard", "changed_with_guard", "%", _SHARE),
    Field("blocks damaged", "blocks_damaged"),
    Field("blocks found", "blocks_found"),
    Field("blocks recomputed", "blocks_recomputed"),
)
_QUIET = (
    Field("numbers", "dtype"),
    Field("prompts", "prompts"),
    Field("answers changed", "changed"),
    Field("blocks verified", "blocks_verified"),
    Field("false alarms", "false_alarms"),
    Field("without fingerprint", "unknown"),
)


def _arms(files: RunFiles) -> list[Record]:
    return rows_of(files.metrics(METRICS), "engine.faults")


def verdicts(files: RunFiles) -> Iterator[str]:
    arms = _arms(files)
    for dtype in dict.fromkeys(arm["dtype"] for arm in arms):
        here = [arm for arm in arms if arm["dtype"] == dtype]
        bare = sum(arm["changed_without_guard"]["count"] for arm in here)
        kept = sum(arm["changed_with_guard"]["count"] for arm in here)
        asked = sum(arm["prompts"] for arm in here)
        yield f"{dtype}: of {asked} answers from damaged caches {bare} changed without guard, {kept} with it."
    for row in rows_of(files.metrics(METRICS), "engine.clean"):
        yield (
            f"{row['dtype']}: {row['false_alarms']} false alarms in {row['blocks_verified']} verified blocks "
            f"without damage; {row['changed']} of {row['prompts']} answers changed by the guard itself."
        )


def key_figures(files: RunFiles) -> list[Block]:
    look = {"level": 0.95, "better": "down"}
    return [
        percent(f"changed with guard, {arm['name']}, {arm['dtype']}", arm["changed_with_guard"], **look)
        for arm in _arms(files)
    ]


def sparkline(files: RunFiles) -> Block | None:
    values = [arm["changed_without_guard"]["estimate"] for arm in _arms(files)]
    return {"label": "answers changed without guard, by fault", "values": values, "bars": True, "top": 1.0}


def _tables(files: RunFiles, metrics: Record) -> Iterator[Block]:
    yield records("faults", "Every fault", _FAULTS, rows_of(metrics, "engine.faults"))
    yield records("quiet", "The guard without damage", _QUIET, rows_of(metrics, "engine.clean"))


SYSTEM = System(
    name="engine",
    title="engine campaign",
    sections=(
        Section(
            "engine",
            "Faults in a serving engine",
            _tables,
            "Blocks of a shared prefix were damaged in a running engine's paged cache; then prompts came in "
            "that found it in the prefix cache. An answer changed if it differs from the one without damage.",
            METRICS,
        ),
    ),
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions={"engine_faults.png": "Share of answers that changed, by kind of fault"},
)
