"""The demo: one question read from a clean, a damaged and a repaired cache; the joint experiment follows."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, figure, missing
from homeostat.report.names import label
from homeostat.report.reading import RunFiles
from homeostat.report.sections import joint
from homeostat.report.sections.system import Field, Section, System, records

METRICS = "demo_metrics"
CLEAN, DAMAGED = "clean", "corrupted"


def verdicts(files: RunFiles) -> Iterator[str]:
    """What repair does to recorded code, to answers from damaged caches, and to code from damaged caches."""
    answers = (files.metrics(METRICS) or {}).get("demo.answers")
    if isinstance(answers, dict):
        yield (
            f"Of {answers['n']} recorded answers to eight prompts {answers['before']:.0%} were the canonical "
            f"program of their prompt; after repair {answers['after']:.0%} are (folder answers)."
        )
    cases = _cases(files)
    same: dict[str, int] = {}
    for rows in cases:
        for row in rows[1:]:
            name = str(row.get("cache"))
            kept = row.get("text") == rows[0].get("text")
            if not row.get("heuristic"):
                same[name] = same.get(name, 0) + kept
    if DAMAGED in same:
        told = [f"{label(name)} {count} of {len(cases)}" for name, count in same.items() if name != DAMAGED]
        yield (
            f"Damage changed {len(cases) - same[DAMAGED]} of {len(cases)} answers. Repair brought back, "
            f"word for word: {', '.join(told)}."
        )
    yield from joint.verdicts(files)


def key_figures(files: RunFiles) -> list[Block]:
    return [
        figure(
            f"perplexity, {label(str(row.get('type')))}, {label(str(row.get('cache')))}",
            row.get("perplexity"),
            name="perplexity",
            better="down",
        )
        for rows in _cases(files)
        for row in rows
    ]


def _questions(files: RunFiles, metrics: Record) -> Iterator[Block]:
    """Clean → damaged → repaired, question by question; every cache in a table below."""
    cases = _cases(files)
    if not cases:
        yield missing("answers from damaged caches")
    for number, rows in enumerate(cases):
        yield _answers(number, rows)
        yield records(f"case-{number}", "Every cache", _FIELDS, rows, folded=True)


def _answers(number: int, rows: list[Record]) -> Block:
    """The clean answer, the damaged one, and what each repair other than a heuristic makes of it."""
    shown = [row for row in rows if not row.get("heuristic")]
    roles: dict[str, blocks.Role] = {CLEAN: "clean", DAMAGED: "damaged"}
    states = [
        blocks.answer(
            name := str(row.get("cache")),
            label(name) if name in roles else f"repaired by {label(name)}",
            roles.get(name, "repaired"),
            row.get("text"),
            row.get("perplexity"),
        )
        for row in shown
    ]
    damage = f"{label(str(rows[0].get('type')))}, severity {rows[0].get('epsilon')}"
    note = f"Damage: {damage}, in every layer and head."
    return blocks.answers(f"answers-{number}", str(rows[0].get("question")), states, note=note)


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
    return f"best heuristic: {label(name)}" if row.get("heuristic") else name


_FIELDS = (
    Field("cache", _name),
    Field("perplexity", "perplexity", 3, "of the clean answer given this cache (1: certain)"),
    Field("same start", "agreement", "%", "share of the clean answer before the two part"),
    Field("answer", "text", names=False),
)
SYSTEM = System(
    name="demo",
    title="demo",
    sections=(
        Section(
            "demo",
            "Clean, damaged, repaired",
            _questions,
            "A question is stored in the KV cache, the stored numbers are damaged, and the model answers "
            "from what it finds. It always takes the likeliest word, so any change comes from the damage.",
            METRICS,
        ),
    ),
    verdicts=verdicts,
    key_figures=key_figures,
)
