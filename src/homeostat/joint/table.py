"""The joint experiment's table: for the terminal, and for a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from homeostat.core.records import Record

COLUMNS = {"oracle_pass": "oracle pass", "r_raw": "R_raw", "r_anchor": "R_anchor", "mu_post": "mu_post"}


def terminal_table(metrics: Record) -> Table:
    arms = metrics["joint.arms"]
    table = Table(title="Code written from a damaged KV cache (95 % intervals)", title_justify="left")
    table.add_column("epsilon", justify="right")
    table.add_column("defence")
    for name in COLUMNS.values():
        table.add_column(name, justify="right")
    for arm in arms:
        defence = "clean" if arm["epsilon"] == 0 else Path(arm["defence"]).name
        table.add_row(f"{arm['epsilon']:g}", escape(defence), *(_cell(arm[key]) for key in COLUMNS))
    return table


def markdown_table(metrics: Record) -> str:
    """The same table for a page."""
    lines = [f"| epsilon | defence | {' | '.join(COLUMNS.values())} |", "|---" * (2 + len(COLUMNS)) + "|"]
    for arm in metrics["joint.arms"]:
        defence = "clean" if arm["epsilon"] == 0 else Path(arm["defence"]).name
        cells = [f"{arm['epsilon']:g}", defence, *(_plain(arm[key]) for key in COLUMNS)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(interval: dict[str, Any]) -> str:
    return _plain(interval).replace("[", r"\[")


def _plain(interval: dict[str, Any]) -> str:
    return f"{interval['estimate']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"
