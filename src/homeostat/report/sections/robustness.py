"""Curves under corruption, what repair gives back, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, missing, section
from homeostat.report.names import colours
from homeostat.report.sections.entries import ends, hidden, lines, panels

_HIDDEN = (
    "Bands and bars are 95 % intervals. Heuristics that the rule did not choose, and defences that are told "
    "the true mask, start hidden: the legend shows them."
)


def curves(metrics: Record) -> Block:
    parts = [
        blocks.panel("all types", lines(metrics.get("robustness.score")), group="score", y_label="score")
    ]
    parts += panels(metrics.get("robustness.by_type"), "score", "score")
    for name, rows in metrics.items():
        if name.startswith("task."):
            parts += panels(rows, name.removeprefix("task."), name.rpartition(".")[2])
    parts = [part for part in parts if part["series"]]
    title, lead = "Under corruption", "What is left as the corruption grows, by type and by task."
    if not parts:
        return section("curves", title, "", [missing("robustness curves")])
    chart = blocks.chart(
        "robustness",
        "Against severity",
        parts,
        x="epsilon",
        y="score",
        note=_HIDDEN,
        off=hidden(parts),
        looks=colours(),
    )
    return section("curves", title, lead, [chart])


def recovered(metrics: Record) -> Iterator[Block]:
    parts = list(panels(metrics.get("robustness.recovered"), None, "share recovered"))
    if not parts:
        return
    chart = blocks.chart(
        "recovered",
        "Share of the lost log-likelihood brought back",
        parts,
        x="epsilon",
        y="share recovered",
        note="1: all of it; 0: none; below 0 the defence did harm. Where nothing was lost there is no point.",
        off=hidden(parts),
        looks=colours(),
    )
    yield section("recovered", "What repair gives back", "On Wikitext-2, by corruption type.", [chart])


_MEGABYTES = "peak memory (MB)"
_SPEED_CI = "relative_throughput_ci"  # shown beside the value it belongs to


def _megabytes(name: str, value: Any) -> Any:
    return value / 1e6 if name == "peak_memory_bytes" and isinstance(value, int | float) else value


def _with_interval(row: Record, name: str) -> Any:
    ci = row.get(_SPEED_CI)
    if name == "relative_throughput" and isinstance(ci, list) and len(ci) == 2:
        return blocks.interval(row.get(name), *ci)
    return row.get(name)


def overhead(metrics: Record) -> Block:
    rows = [row for row in metrics.get("overhead") or [] if isinstance(row, dict)]
    if not rows:
        how = "eval.measure_overhead: true"
        return section("overhead", "Overhead", "", [missing("overhead. It is measured with", how)])
    rows = [
        {_MEGABYTES if k == "peak_memory_bytes" else k: _megabytes(k, v) for k, v in row.items()}
        for row in rows
    ]
    constant = {
        name: rows[0][name]
        for name in rows[0]
        if name != "defence" and len(rows) > 1 and len({str(row.get(name)) for row in rows}) == 1
    }
    left_out = {*constant, _SPEED_CI}
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name not in left_out]
    note = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in constant.items())
    cells = [[_with_interval(row, name) for name in names] for row in rows]
    table = blocks.table("overhead-table", "Speed and memory", names, cells, note=note)
    return section("overhead", "Overhead", "What each defence costs.", [*_pareto(metrics, rows), table])


def _pareto(metrics: Record, rows: list[Record]) -> Iterator[Block]:
    speed = {str(row.get("defence")): row.get("relative_throughput") for row in rows}
    marks = []
    for cost in metrics.get("clean_regression") or []:
        name, x = str(cost.get("defence")), speed.get(str(cost.get("defence")))
        if isinstance(x, int | float) and cost.get("value") is not None:
            marks.append(blocks.series(name, [(float(x), cost["value"], *ends(cost))]))
    if marks:
        part = blocks.panel("every defence", marks)
        yield blocks.chart(
            "pareto",
            "Clean regression against speed",
            [part],
            x="throughput relative to no defence",
            y="score lost when clean",
            mode="scatter",
            note="Best is right and low: as fast as no defence, and nothing lost where nothing is wrong.",
            off=hidden([part]),
            looks=colours(),
        )
