"""What a command shows at its end: one table, rounded for people; the files keep full precision."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.table import Table

from homeostat.core.results import Shown
from homeostat.core.results import Table as Results

_FIGURES = ("N", "R_raw", "R_anchor", "mu_pre", "mu_post", "P_tau_pre", "P_tau_post", "rescue_rate")


class RunMetrics(Shown, dict[str, Any]):
    """The metrics of a run: a plain dict for records, a table for people and notebooks."""

    def table(self) -> Results:
        """One row per prompt, with what the formulas give and the interval of R_anchor."""
        rows = []
        for row in self["skyt.prompts"]:
            low_high = row["intervals"].get("R_anchor", {"low": None, "high": None})
            figures = {name: row[name] for name in _FIGURES if name in row}
            rows.append(
                {"prompt": row["prompt_id"], **figures, "low": low_high["low"], "high": low_high["high"]}
            )
        return Results.of(rows)

    def __repr__(self) -> str:
        console = Console(width=100, file=io.StringIO())
        with console.capture() as shown:
            show_metrics(self, console)
        return shown.get().rstrip()


def show_metrics(metrics: dict[str, Any], console: Console | None = None) -> None:
    """One row per prompt, and one for all of them where there are several."""
    console = console or Console()
    rows = [(row["prompt_id"], row) for row in metrics["skyt.prompts"]]
    if len(rows) > 1:
        rows.append(("overall", metrics["skyt.overall"]))
    tau = metrics["skyt.overall"]["tau"]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("prompt", no_wrap=True)
    for title in ("N", "R_raw", "before", "R_anchor", "95 %", "mu", f"P_{tau:g}"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, row in rows:
        interval = row["intervals"].get("R_anchor", {"low": 0.0, "high": 1.0})
        table.add_row(
            name,
            str(row["N"]),
            f"{row['R_raw']:.3f}",
            f"{row['R_anchor_pre_measured']:.3f}",
            f"{row['R_anchor']:.3f}",
            f"{interval['low']:.2f}–{interval['high']:.2f}",
            f"{row['mu_pre']:.3f}→{row['mu_post']:.3f}",
            f"{row['P_tau_pre']:.3f}→{row['P_tau_post']:.3f}",
            style="bold" if name == "overall" else "",
        )
    console.print(table)
    counts = metrics["skyt.overall"]["evidence_counts"]
    console.print(
        "evidence: " + ", ".join(f"{level} {count}" for level, count in counts.items()), highlight=False
    )
