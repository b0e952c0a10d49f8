"""Repeatability of generated code: headline, by prompt, by model and temperature, and as distances."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, column, figure, interval, missing, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections.samples import SAMPLES

EVIDENCE = ("identical", "rewritten", "equivalent", "none")
_BINS = 20
_COLUMNS = (
    ("N", None, "samples"),
    ("R_raw", 3, "share of the commonest raw output"),
    ("R_anchor_pre_measured", 3, "share equal to the canon before repair"),
    ("R_anchor", 3, "share equal to the canon after repair"),
    ("mu_pre", 3, "mean distance before repair"),
    ("mu_post", 3, "mean distance after repair"),
    ("P_tau_pre", 3, "share within tau before repair"),
    ("P_tau_post", 3, "share within tau after repair"),
    ("rescue_rate", 3, "share brought to the canon by repair"),
    ("compliant_post", 3, "share that passes the oracle after repair"),
)


def headline(found: Record) -> Block:
    whole = found.get("skyt.overall") or {}
    tau = whole.get("tau")
    items = [
        figure_of(
            whole,
            "R_anchor",
            "R_anchor, after repair",
            before="R_anchor_pre_measured",
            main=True,
            note="share of samples equal to their prompt's canon",
        ),
        figure_of(whole, "R_raw", "R_raw", note="share of the commonest raw output"),
        figure_of(
            whole, "mu_post", "mean distance", before="mu_pre", note="normalised edit distance to the canon"
        ),
        figure_of(
            whole, "P_tau_post", "P_tau", before="P_tau_pre", note=f"share within tau = {tau} of the canon"
        ),
        figure_of(whole, "rescue_rate", "rescue rate", note="share brought to the canon by repair"),
        figure_of(whole, "compliant_post", "pass the oracle", before="compliant_pre", note="after repair"),
        figure_of(whole, "N", "samples"),
    ]
    counts = whole.get("evidence_counts")
    by_level = whole.get("r_anchor") or {}
    parts: list[Block] = [blocks.figures([item for item in items if item["value"] is not None])]
    if counts:
        levels = ", ".join(f"{name} {share:.3f}" for name, share in by_level.items())
        rows = [("all prompts", [counts.get(level, 0) for level in EVIDENCE])]
        rows += [
            (p["prompt_id"], [(p.get("evidence_counts") or {}).get(level, 0) for level in EVIDENCE])
            for p in found.get("skyt.prompts") or []
        ]
        note = (
            "identical: equal to the canon as generated. rewritten: equal after rules that keep behaviour by "
            "construction. equivalent: another program, replaced after differential testing. none: neither."
            + (f" R_anchor counted up to each level: {levels}." if levels else "")
        )
        parts.append(blocks.shares("evidence", "What each match rests on", EVIDENCE, rows, note=note))
    return section(
        "headline",
        "Repeatability",
        "Every sample is measured against one fixed program a prompt, its canon.",
        parts,
    )


def prompts(found: Record) -> Block:
    prompts = [p for p in found.get("skyt.prompts") or [] if isinstance(p, dict)]
    rows = [
        (
            str(p.get("prompt_id")),
            {
                "before repair": _cell(p, "R_anchor_pre_measured"),
                "after repair": _cell(p, "R_anchor"),
                "R_raw": p.get("R_raw"),
            },
        )
        for p in prompts
    ]
    tests = {t.get("prompt_id"): t for t in found.get("skyt.tests") or []}
    columns = [column("prompt"), *(column(n, digits=d, help=t) for n, d, t in _COLUMNS), column("p (Holm)")]
    cells = [
        [
            p.get("prompt_id"),
            *(_cell(p, n) for n, _, _ in _COLUMNS),
            (tests.get(p.get("prompt_id")) or {}).get("p_holm"),
        ]
        for p in prompts
    ]
    note = "Share equal to the canon, with 95 % Wilson intervals; R_raw: share of the commonest raw output."
    return section(
        "prompts",
        "By prompt",
        "",
        [
            blocks.dots(
                "prompt-dots",
                "Repeatability by prompt",
                ("before repair", "after repair", "R_raw"),
                rows,
                x="share of samples",
                limits=(0.0, 1.0),
                note=note,
                compare="after repair",
            ),
            blocks.table(
                "prompt-table",
                "All figures by prompt",
                columns,
                cells,
                note="p: Fisher's exact test, canonical share before against after, adjusted across prompts.",
            ),
        ],
    )


def cells(cells: list[Record]) -> Block:
    parts: list[Block] = []
    curves: dict[tuple[str, str], dict[str, list[blocks.Point]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for metric in ("R_anchor", "R_anchor_pre_measured", "R_raw"):
            spread = (cell.get("intervals") or {}).get(metric) or {}
            point = (cell.get("temperature", 0.0), cell.get(metric), spread.get("low"), spread.get("high"))
            name = {"R_anchor": "after repair", "R_anchor_pre_measured": "before repair", "R_raw": "R_raw"}[
                metric
            ]
            curves[name, str(cell.get("prompt_id"))][str(cell.get("model"))].append(point)
    if len({cell.get("temperature") for cell in cells}) > 1:
        panels = [
            blocks.panel(
                prompt, [blocks.series(m, sorted(points)) for m, points in models.items()], group=metric
            )
            for (metric, prompt), models in curves.items()
        ]
        note = "One panel a prompt, one line a model, with 95 % Wilson intervals."
        parts.append(
            blocks.chart(
                "temperature",
                "Repeatability and temperature",
                panels,
                x="temperature",
                y="share of samples",
                y_limits=(0.0, 1.0),
                note=note,
            )
        )
    columns = [
        column("prompt"),
        column("model"),
        column("temperature"),
        *(column(n, digits=d, help=t) for n, d, t in _COLUMNS),
    ]
    rows = [
        [c.get("prompt_id"), c.get("model"), c.get("temperature"), *(_cell(c, n) for n, _, _ in _COLUMNS)]
        for c in cells
    ]
    parts.append(
        blocks.table("cell-table", "All figures by prompt, model and temperature", columns, rows, folded=True)
    )
    return section("cells", "By model and temperature", "", parts)


def distances(files: RunFiles) -> Block:
    """How far samples are from their canon, counted in equal bins, exact matches in a bin of their own."""
    counts = {"before repair": [0] * (_BINS + 1), "after repair": [0] * (_BINS + 1)}
    total = 0
    for row in files.lines(SAMPLES):
        before, after = row.get("d_pre"), row.get("d_post")
        if isinstance(before, int | float) and isinstance(after, int | float):
            counts["before repair"][_bin(before)] += 1
            counts["after repair"][_bin(after)] += 1
            total += 1
    if not total:
        return section("distances", "Distances", "", [missing("distances of samples (samples.jsonl)")])
    lines = [
        blocks.series(
            name,
            [((i - 1) / _BINS, float(n), None, None) for i, n in enumerate(bins)] + [(1.0, 0.0, None, None)],
        )
        for name, bins in counts.items()
    ]
    note = f"Counts of {total:,} samples in bins of {1 / _BINS:g}; the bar left of 0 holds the exact matches."
    chart = blocks.chart(
        "distance-counts",
        "Distance to the canon",
        [blocks.panel("all samples", lines)],
        x="distance",
        y="samples",
        note=note,
        mode="steps",
    )
    return section("distances", "Distances", "", [chart])


def _bin(d: float) -> int:
    return 0 if d == 0 else min(_BINS, 1 + int(d * _BINS))


def figure_of(
    found: Record, name: str, label: str, *, before: str = "", note: str = "", main: bool = False
) -> Block:
    spread: dict[str, Any] = (found.get("intervals") or {}).get(name) or {}
    return figure(
        label,
        found.get(name),
        low=spread.get("low"),
        high=spread.get("high"),
        level=spread.get("level"),
        note=note,
        before=found.get(before) if before else None,
        main=main,
        digits=3,
    )


def _cell(found: Record, name: str) -> Any:
    spread = (found.get("intervals") or {}).get(name) or {}
    return interval(found.get(name), spread.get("low"), spread.get("high"))


def span(found: Record, name: str) -> str:
    spread = (found.get("intervals") or {}).get(name)
    return f" (95 % interval {spread['low']:.1%} to {spread['high']:.1%})" if spread else ""
