"""Repeatability of generated code: headline, by prompt, by model and temperature, and as distances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Digits, Direction, figure, interval, missing
from homeostat.report.names import label
from homeostat.report.reading import RunFiles
from homeostat.report.sections.samples import SAMPLES
from homeostat.report.sections.system import Field, records, rows_of

EVIDENCE = ("identical", "rewritten", "equivalent", "none")
SHOWN = (*EVIDENCE[:-1], "no match")
BEFORE, AFTER, RAW = "before repair", "after repair", "R_raw"
LOOKS = {BEFORE: 1, AFTER: 0, RAW: 8}  # the colours of the run's own figures
_BINS = 20
_MEASURES: dict[str, tuple[Digits, Direction]] = {
    "N": (None, None),
    "R_raw": ("%", "up"),
    "R_anchor_pre_measured": ("%", "up"),
    "R_anchor": ("%", "up"),
    "mu_pre": (3, "down"),
    "mu_post": (3, "down"),
    "P_tau_pre": ("%", "up"),
    "P_tau_post": ("%", "up"),
    "rescue_rate": ("%", "up"),
    "compliant_post": ("%", "up"),
}
# Columns of tables: the figure after repair, and the one before it in the same cell.
_PAIRS = {
    "N": None,
    "R_raw": None,
    "R_anchor": "R_anchor_pre_measured",
    "mu_post": "mu_pre",
    "P_tau_post": "P_tau_pre",
    "rescue_rate": None,
    "compliant_post": None,
}
_HEADS = {
    "mu_post": ("mean distance", "Mean distance to the canon, before → after repair. Lower is better."),
    "P_tau_post": ("P_tau", "Share of samples within tau of the canon, before → after repair."),
    "R_anchor": ("R_anchor", "Share of samples equal to the canon, before → after repair."),
    "compliant_post": ("correct", "Share of samples that the oracle accepts after repair."),
}
_TABLE_NOTE = (
    "Figures before → after repair, with the 95 % interval of the one after. p: Fisher's exact test of the "
    "share equal to the canon, before against after, adjusted across prompts."
)


def headline(files: RunFiles, found: Record) -> Iterator[Block]:
    whole = found.get("skyt.overall") or {}
    tau = whole.get("tau")
    items = [
        figure_of(
            whole,
            "R_anchor",
            "repeatability to the canon",
            before="R_anchor_pre_measured",
            main=True,
            note="share of samples equal to their prompt's canon, before and after repair",
        ),
        figure_of(whole, "R_raw", label("R_raw"), note="share of the commonest raw output"),
        figure_of(
            whole, "mu_post", "mean distance", before="mu_pre", note="normalised edit distance to the canon"
        ),
        figure_of(
            whole, "P_tau_post", label("P_tau"), before="P_tau_pre", note=f"at a distance of at most {tau}"
        ),
        figure_of(whole, "rescue_rate", "rescue rate", note="share brought to the canon by repair"),
        figure_of(
            whole, "compliant_post", "correct", before="compliant_pre", note="share that the oracle accepts"
        ),
        figure_of(whole, "N", "samples"),
    ]
    counts = whole.get("evidence_counts")
    by_level = whole.get("r_anchor") or {}
    yield blocks.figures([item for item in items if item["value"] is not None])
    if counts:
        levels = ", ".join(f"{name} {share:.1%}" for name, share in by_level.items())
        rows = [("all prompts", [counts.get(level, 0) for level in EVIDENCE])]
        rows += [
            (p["prompt_id"], [(p.get("evidence_counts") or {}).get(level, 0) for level in EVIDENCE])
            for p in found.get("skyt.prompts") or []
        ]
        note = (
            "Identical: equal to the canon as generated. Rewritten: equal after rules that keep behaviour. "
            "Equivalent: replaced after testing found no difference. No match: not brought to the canon."
            + (f" Repeatability counted up to each level: {levels}." if levels else "")
        )
        yield blocks.shares("evidence", "What each match rests on", SHOWN, rows, note=note)


def prompts(files: RunFiles, found: Record) -> Iterator[Block]:
    prompts = rows_of(found, "skyt.prompts")
    rows = [
        (
            str(p.get("prompt_id")),
            {
                BEFORE: _cell(p, "R_anchor_pre_measured"),
                AFTER: _cell(p, "R_anchor"),
                RAW: p.get("R_raw"),
            },
        )
        for p in prompts
    ]
    note = (
        "Share equal to the canon, with 95 % intervals; raw repeatability: share of the commonest raw output."
    )
    yield blocks.dots(
        "prompt-dots",
        "Repeatability by prompt",
        (BEFORE, AFTER, RAW),
        rows,
        x="share of samples",
        limits=(0.0, 1.0),
        note=note,
        compare=AFTER,
        digits="%",
        looks=LOOKS,
    )
    tests = {t.get("prompt_id"): t.get("p_holm") for t in found.get("skyt.tests") or []}
    help = "Fisher's exact test, adjusted across prompts."
    p_value = Field("p (Holm)", lambda p: tests.get(p.get("prompt_id")), 3, help)
    fields = (Field("prompt", "prompt_id", names=False), *_FIELDS, p_value)
    yield records("prompt-table", "All figures by prompt", fields, prompts, note=_TABLE_NOTE)


def cells(cells: list[Record], source: str) -> Iterator[Block]:
    """By model and temperature, or by arm of an experiment, which takes the model's place in the records."""
    curves: dict[tuple[str, str], dict[str, list[blocks.Point]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for metric in ("R_anchor", "R_anchor_pre_measured", "R_raw"):
            ends = _interval(cell, metric)
            point = (cell.get("temperature", 0.0), cell.get(metric), ends.get("low"), ends.get("high"))
            name = {"R_anchor": AFTER, "R_anchor_pre_measured": BEFORE, "R_raw": RAW}[metric]
            curves[name, str(cell.get("prompt_id"))][str(cell.get("model"))].append(point)
    several = len({cell.get("temperature") for cell in cells}) > 1
    if several:
        panels = [
            blocks.panel(
                prompt, [blocks.series(m, sorted(points)) for m, points in models.items()], group=metric
            )
            for (metric, prompt), models in curves.items()
        ]
        note = "One panel for each prompt and one line for each model, with 95 % intervals."
        yield blocks.chart(
            "temperature",
            "Repeatability and temperature",
            panels,
            x="temperature",
            y="share of samples",
            y_limits=(0.0, 1.0),
            y_digits="%",
            note=note,
        )
    prompt, temperature = Field("prompt", "prompt_id", names=False), Field("temperature", "temperature", 2)
    fields = (prompt, Field(source, "model"), temperature, *_FIELDS)
    title = f"All figures by prompt, {source} and temperature"
    yield records("cell-table", title, fields, cells, folded=several)


def distances(files: RunFiles, found: Record) -> Iterator[Block]:
    """How far samples are from their canon, counted in equal bins, exact matches in a bin of their own."""
    counts = {BEFORE: [0] * (_BINS + 1), AFTER: [0] * (_BINS + 1)}
    total = 0
    for row in files.lines(SAMPLES):
        before, after = row.get("d_pre"), row.get("d_post")
        if isinstance(before, int | float) and isinstance(after, int | float):
            counts[BEFORE][_bin(before)] += 1
            counts[AFTER][_bin(after)] += 1
            total += 1
    if not total:
        yield missing("distances of samples (samples.jsonl)")
        return
    lines = [
        blocks.series(
            name,
            [((i - 1) / _BINS, float(n), None, None) for i, n in enumerate(bins)] + [(1.0, 0.0, None, None)],
        )
        for name, bins in counts.items()
    ]
    note = f"Counts of {total:,} samples in bins of {1 / _BINS:g}; the bar left of 0 holds the exact matches."
    yield blocks.chart(
        "distance-counts",
        "Distance to the canon",
        [blocks.panel("all samples", lines)],
        x="distance",
        y="samples",
        note=note,
        mode="steps",
        looks=LOOKS,
    )


def _bin(d: float) -> int:
    return 0 if d == 0 else min(_BINS, 1 + int(d * _BINS))


def figure_of(
    found: Record, name: str, text: str, *, before: str = "", note: str = "", main: bool = False
) -> Block:
    digits, better = _MEASURES[name]
    earlier = found.get(before) if before else None
    look: dict[str, Any] = {"digits": digits, "better": better, "name": name, "note": note, "main": main}
    return figure(text, found.get(name), before=earlier, **_interval(found, name), **look)


def _cell(found: Record, name: str, before: str | None = None) -> Any:
    ends, earlier = _interval(found, name), found.get(before) if before else None
    return interval(found.get(name), ends.get("low"), ends.get("high"), before=earlier)


def span(found: Record, name: str) -> str:
    ends = _interval(found, name)
    return f" (95 % interval {ends['low']:.1%} to {ends['high']:.1%})" if ends else ""


def _interval(found: Record, name: str) -> dict[str, Any]:
    """The ends and the level of a figure's interval; empty where it has none."""
    ends = (found.get("intervals") or {}).get(name) or {}
    return {key: ends.get(key) for key in ("low", "high", "level")} if ends else {}


_FIELDS = tuple(
    Field(title, partial(_cell, name=name, before=before), _MEASURES[name][0], help)
    for name, before in _PAIRS.items()
    for title, help in [_HEADS.get(name, (name, ""))]
)
