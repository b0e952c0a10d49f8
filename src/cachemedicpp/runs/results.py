"""A run of cachemedicpp for Python and notebooks: `cachemedicpp.read_run("runs/cache-smoke")`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachemedicpp.plots.drawing import read_metrics
from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.core.results import Shown, Table


@dataclass(frozen=True, repr=False)
class CacheRun(Shown):
    """An evaluated run: its folder, and what `metrics/task_metrics.json` holds."""

    folder: Path
    metrics: Record

    def table(self) -> Table:
        """The area under the robustness curve of each defence, best first, with its interval."""
        found = sorted(self.metrics["robustness.auc"], key=lambda entry: -(entry["value"] or 0.0))
        return Table.of([_row(entry) for entry in found], "robustness AUC")

    def curves(self) -> Table:
        """The robustness score of each defence at each severity."""
        return Table.of([_row(entry) for entry in self.metrics["robustness.score"]], "robustness score")

    def tasks(self) -> Table:
        """Each task's own metric for each type of damage, severity and defence."""
        rows = [
            {"task": name.split(".")[1], "metric": name.split(".")[2], **_row(entry)}
            for name, entries in self.metrics.items()
            if name.startswith("task.")
            for entry in entries
        ]
        return Table.of(rows, "task metrics")


def read_run(folder: str | Path) -> CacheRun:
    """An evaluated run from its folder."""
    path = Path(folder)
    if not (path / "run_record.json").exists():
        raise UserError(f"{path} is not a run directory: it has no run_record.json")
    return CacheRun(path, read_metrics(path, "task_metrics"))


def _row(entry: Record) -> dict[str, Any]:
    """An entry of a metric with its interval in two columns."""
    low, high = entry.get("ci") or (None, None)
    plain = {key: value for key, value in entry.items() if key != "ci"}
    return {**plain, "low": low, "high": high}
