"""The demo: one question read from a clean, a damaged and a repaired cache; the joint experiment follows."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, column, figure, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections import joint
from homeostat.report.sections.system import System

METRICS = "demo_metrics"
CLEAN, DAMAGED = "clean", "corrupted"


def is_demo(files: RunFiles) -> bool:
    return METRICS in files.metric_names()


def verdicts(files: RunFiles) -> Iterator[str]:
    """What happened to each answer, then what the joint experiment shows."""
    for rows in _cases(files):
        costs = {str(row.get("cache")): row.get("perplexity") for row in rows}
        if any(costs.get(name) is None for name in (CLEAN, DAMAGED)):
            continue
        repairs = [f"{costs[name]:.3g} with {name}" for name in costs if name not in (CLEAN, DAMAGED)]
        yield (
            f"{rows[0].get('type')} damage takes the perplexity of the clean answer from {costs[CLEAN]:.3g} "
            f"to {costs[DAMAGED]:.3g}; repaired, it is {', '.join(repairs)}."
        )
    yield from joint.verdicts(files)


def key_figures(files: RunFiles) -> list[Block]:
    return [
        figure(f"perplexity, {row.get('type')}, {row.get('cache')}", row.get("perplexity"))
        for rows in _cases(files)
        for row in rows
    ]


def sections(files: RunFiles) -> Iterator[Block]:
    columns = [
        column("cache"),
        column("perplexity", digits=3, help="of the clean answer, read from this cache: 1 is no surprise"),
        column("same start", digits=2, help="share of the clean answer before the two part"),
        column("answer"),
    ]
    tables = [
        blocks.table(
            f"case-{number}",
            str(rows[0].get("question")),
            columns,
            [[_name(row), row.get("perplexity"), row.get("agreement"), row.get("text")] for row in rows],
            note=f"Damage: {rows[0].get('type')}, epsilon {rows[0].get('epsilon')}, in every layer and head.",
        )
        for number, rows in enumerate(_cases(files))
    ]
    lead = (
        "A prompt is stored in the KV cache; the stored bits are damaged; the model answers from what it "
        "finds. Greedy decoding, so that any change is the damage's."
    )
    yield section("demo", "One question, five caches", lead, tables)


def _cases(files: RunFiles) -> list[list[Record]]:
    """The rows of each question, the clean cache first."""
    found: list[list[Record]] = []
    for row in (files.metrics(METRICS) or {}).get("demo.cache") or []:
        if row.get("cache") == CLEAN:
            found.append([])
        found[-1].append(row)
    return found


def _name(row: Record) -> str:
    name = str(row.get("cache"))
    return f"best heuristic ({name})" if row.get("heuristic") else name


SYSTEM = System(
    name="demo",
    title="demo",
    claims=(METRICS,),
    is_here=is_demo,
    sections=sections,
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=lambda files: None,
)
