"""Rows of cachemedicpp's metrics: `{defence, value, ci, epsilon, type, ...}`, and how defences are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Point
from homeostat.report.names import ORACLE, heuristics
from homeostat.report.sections.system import measured, spread

NONE, HEURISTIC = "none", "best_heuristic"


def is_shown(name: str) -> bool:
    """Shown from the start: all but single heuristics and those that were told the true mask."""
    return name not in heuristics() and ORACLE not in name


def is_rival(name: str) -> bool:
    """A repair or guard, as opposed to the baselines."""
    return is_shown(name) and name not in (NONE, HEURISTIC)


def by_defence(rows: Any) -> dict[str, list[Record]]:
    """Rows by defence, each list in order of epsilon."""
    found: dict[str, list[Record]] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and "value" in row:
            found.setdefault(str(row.get("defence")), []).append(row)
    for name in found:
        found[name].sort(key=lambda row: row.get("epsilon") or 0.0)
    return found


def lines(rows: Any) -> list[Block]:
    """One series a defence, in the order of the legend: baselines, repairs, what starts hidden."""
    found = by_defence(rows)
    order = sorted(found, key=lambda name: (name not in (NONE, HEURISTIC), not is_shown(name)))
    return [blocks.series(name, [point(row) for row in found[name]]) for name in order]


def panels(rows: Any, group: str | None, y: str) -> Iterator[Block]:
    """One panel a corruption type; the clean value is the first point of each."""
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    clean = [row for row in known if row.get("type") == "clean"]
    for kind in dict.fromkeys(row.get("type") for row in known):
        if kind != "clean":
            own = [row for row in known if row.get("type") == kind]
            yield blocks.panel(str(kind), lines(clean + own), group=group, y_label=y)


def hidden(parts: list[Block]) -> list[str]:
    """Names of the series that start hidden."""
    names = dict.fromkeys(line["name"] for part in parts for line in part["series"])
    return [name for name in names if not is_shown(name)]


def point(row: Record) -> Point:
    return (row.get("epsilon") or 0.0, *spread(row))


def figure_of(text: str, row: Record, **look: Any) -> Block:
    return measured(text, row, digits=4, name=str(row.get("defence")), better="up", **look)


def worded(row: Record | None) -> str:
    value = None if row is None else row.get("value")
    return "an unknown value" if value is None else f"{value:.4f}"
