"""The metrics of a campaign as a table in the terminal."""

from __future__ import annotations

from rich.table import Table

from homeostat.core.records import Record


def terminal_table(metrics: Record) -> Table:
    table = Table(title="Answers that changed", title_justify="left")
    for name in (
        "numbers",
        "fault",
        "prompts",
        "without guard",
        "with guard",
        "blocks hit",
        "found",
    ):
        table.add_column(name, justify="left" if name in ("numbers", "fault") else "right")
    for arm in metrics["engine.faults"]:
        table.add_row(
            arm["dtype"],
            arm["name"],
            str(arm["prompts"]),
            str(arm["changed_without_guard"]["count"]),
            str(arm["changed_with_guard"]["count"]),
            str(arm["blocks_damaged"]),
            str(arm["blocks_found"]),
        )
    for quiet in metrics["engine.clean"]:
        table.add_row(
            quiet["dtype"],
            "none",
            str(quiet["prompts"]),
            "0",
            str(quiet["changed"]),
            "0",
            f"{quiet['false_alarms']} of {quiet['blocks_verified']} verified",
        )
    return table
