"""What a run's repair gains over no defence, resample by resample, from the scores in its log.

Runs of one sweep that evaluate the same examples share their resamples, and all are summed up over the tasks
that count in the reference, so that the difference between two variants is paired by example.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cachemedicpp.eval.grid import grid_cells
from cachemedicpp.eval.robustness import Array, Robustness, task_scores
from homeostat.core.records import Record, read_jsonl, read_record

_RESAMPLES = 2000


def gains(run_dir: Path, defence: str, tasks: Sequence[str] | None = None) -> Array:
    """Area of `defence` minus that of no defence: the data, then each resample `[1 + R]`."""
    found = resampled(run_dir, tasks)
    return found.auc(defence) - found.auc("none")


def counted_tasks(run_dir: Path) -> list[str]:
    """The tasks that a run's summary counts."""
    record = read_record(run_dir / "metrics" / "task_metrics.json", "metric_record")
    counted = record["metrics"].get("robustness.counted")
    every = counted is None or counted["all"]
    return list(record["settings"]["tasks"] if every else counted["tasks"])


def resampled(run_dir: Path, tasks: Sequence[str] | None = None) -> Robustness:
    """All scores of a run over `tasks` (None: those its summary counts), with resamples of the examples."""
    record = read_record(run_dir / "metrics" / "task_metrics.json", "metric_record")
    settings = record["settings"]
    names = [name for name in tasks or counted_tasks(run_dir) if name in settings["tasks"]]
    rows: dict[str, list[Record]] = {name: [] for name in settings["tasks"]}
    for row in read_jsonl(run_dir / "logs" / "eval.jsonl"):
        rows[row["task"]].append(row)
    metric = {name: "ppl" if f"task.{name}.ppl" in record["metrics"] else "accuracy" for name in names}
    found = [task_scores(name, metric[name], rows[name]) for name in names]
    return Robustness.build(found, grid_cells(settings["types"], settings["eps"]), _RESAMPLES, 0)
