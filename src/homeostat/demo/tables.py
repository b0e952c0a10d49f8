"""The demo's tables for the terminal: what damage did to answers, and what skyt did to code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from homeostat.core.records import Record, read_jsonl
from homeostat.demo.cache import CLEAN


def cache_table(rows: Sequence[Record]) -> Table:
    table = Table(
        title="State: the same question read from a clean, a damaged and a repaired KV cache",
        title_justify="left",
        show_lines=True,
    )
    table.add_column("cache")
    table.add_column("perplexity*", justify="right")
    table.add_column("same start", justify="right")
    table.add_column("answer")
    for row in rows:
        if row["cache"] == CLEAN:
            damage = f"{row['type']}, epsilon {row['epsilon']:g}"
            table.add_row("", "", "", f"[bold]{escape(row['question'])}[/bold]  ({damage})")
        name = f"best heuristic:\n{row['cache']}" if row["heuristic"] else row["cache"]
        table.add_row(name, _short(row["perplexity"]), f"{row['agreement']:.0%}", escape(row["text"]))
    table.caption = "* of the clean answer given this cache (1: certain)"
    table.caption_justify = "left"
    return table


def code_table(samples: Path, arm: str) -> Table:
    """Repeatability of the clean arm by contract, before and after repair."""
    groups: dict[str, list[Record]] = {}
    for record in read_jsonl(samples):
        if record["model"] == arm:
            groups.setdefault(record["contract_id"], []).append(record)
    table = Table(
        title="Output: code for each contract, anchored to its first compliant program",
        title_justify="left",
    )
    for name in ("contract", "samples", "distinct", "pass the oracle", "R_anchor", "after repair"):
        table.add_column(name, justify="left" if name == "contract" else "right")
    for contract, rows in groups.items():
        count = len(rows)
        table.add_row(
            escape(contract),
            str(count),
            str(len({row["signature_pre"] for row in rows})),
            f"{sum(row['oracle_pre']['compliant'] for row in rows)}/{count}",
            f"{sum(row['d_pre'] == 0 for row in rows) / count:.2f}",
            f"{sum(row['d_post'] == 0 for row in rows) / count:.2f}",
        )
    return table


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 1000 else f"{value:.0e}"
