"""Curves under corruption, what repair gives back, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, missing
from homeostat.report.names import colours
from homeostat.report.reading import RunFiles
from homeostat.report.sections.entries import hidden, lines, panels
from homeostat.report.sections.system import Field, records, rows_of, spread

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


_SPEED, _SPEED_CI = "relative_throughput", "relative_throughput_ci"
_MEMORY = "peak_memory_bytes"


def _cost(row: Record, name: str) -> Any:
    """A cell of the table of costs: memory in megabytes, the relative speed with its interval."""
    value, ci = row.get(name), row.get(_SPEED_CI)
    if name == _SPEED and isinstance(ci, list) and len(ci) == 2:
        return blocks.interval(value, *ci)
    return value / 1e6 if name == _MEMORY and isinstance(value, int | float) else value


def overhead(files: RunFiles, metrics: Record) -> Iterator[Block]:
    rows = rows_of(metrics, "overhead")
    if not rows:
        yield missing("overhead. It is measured with", "eval.measure_overhead: true")
        return
    titles = {key: "peak memory (MB)" if key == _MEMORY else key for row in rows for key in row}
    same = [key for key in rows[0] if key != "defence" and len({str(row.get(key)) for row in rows}) == 1]
    constant = same if len(rows) > 1 else []
    fields = [
        Field(title, partial(_cost, name=key))
        for key, title in titles.items()
        if key not in (*constant, _SPEED_CI)
    ]
    note = "; ".join(f"{titles[key].replace('_', ' ')}: {_cost(rows[0], key)}" for key in constant)
    yield from _pareto(metrics, rows)
    yield records("overhead-table", "Speed and memory", fields, rows, note=note)


def _pareto(metrics: Record, rows: list[Record]) -> Iterator[Block]:
    speed = {str(row.get("defence")): row.get(_SPEED) for row in rows}
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
