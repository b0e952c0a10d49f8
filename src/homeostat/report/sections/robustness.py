"""Curves under corruption, what repair gives back, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, missing
from homeostat.report.names import colours
from homeostat.report.reading import RunFiles
from homeostat.report.sections.entries import hidden, lines, panels
from homeostat.report.sections.system import rows_of, spread

_HIDDEN = (
    "Bands and bars are 95 % intervals. Heuristics that the rule did not choose, and defences that are told "
    "the true mask, start hidden: the legend shows them."
)


def curves(files: RunFiles, metrics: Record) -> Iterator[Block]:
    parts = [
        blocks.panel("all types", lines(metrics.get("robustness.score")), group="score", y_label="score")
    ]
    parts += panels(metrics.get("robustness.by_type"), "score", "score")
    for name, rows in metrics.items():
        if name.startswith("task."):
            parts += panels(rows, name.removeprefix("task."), name.rpartition(".")[2])
    yield _chart("robustness", "Against severity", parts, "score", _HIDDEN) or missing("robustness curves")


def recovered(files: RunFiles, metrics: Record) -> Iterator[Block]:
    note = "1: all of it; 0: none; below 0 the defence did harm. Where nothing was lost there is no point."
    parts = list(panels(metrics.get("robustness.recovered"), None, "share recovered"))
    title = "Share of the lost log-likelihood brought back"
    if chart := _chart("recovered", title, parts, "share recovered", note):
        yield chart


def _chart(ident: str, title: str, parts: list[Block], y: str, note: str) -> Block | None:
    """Curves against epsilon; None where there are none."""
    parts = [part for part in parts if part["series"]]
    if not parts:
        return None
    off, looks = hidden(parts), colours()
    return blocks.chart(ident, title, parts, x="epsilon", y=y, note=note, off=off, looks=looks)


_MEGABYTES = "peak memory (MB)"
_SPEED_CI = "relative_throughput_ci"  # shown beside the value it belongs to


def _megabytes(name: str, value: Any) -> Any:
    return value / 1e6 if name == "peak_memory_bytes" and isinstance(value, int | float) else value


def _with_interval(row: Record, name: str) -> Any:
    ci = row.get(_SPEED_CI)
    if name == "relative_throughput" and isinstance(ci, list) and len(ci) == 2:
        return blocks.interval(row.get(name), *ci)
    return row.get(name)


def overhead(files: RunFiles, metrics: Record) -> Iterator[Block]:
    rows = rows_of(metrics, "overhead")
    if not rows:
        yield missing("overhead. It is measured with", "eval.measure_overhead: true")
        return
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
    yield from _pareto(metrics, rows)
    yield blocks.table("overhead-table", "Speed and memory", names, cells, note=note)


def _pareto(metrics: Record, rows: list[Record]) -> Iterator[Block]:
    speed = {str(row.get("defence")): row.get("relative_throughput") for row in rows}
    marks = []
    for cost in metrics.get("clean_regression") or []:
        name, x = str(cost.get("defence")), speed.get(str(cost.get("defence")))
        if isinstance(x, int | float) and cost.get("value") is not None:
            marks.append(blocks.series(name, [(float(x), *spread(cost))]))
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
