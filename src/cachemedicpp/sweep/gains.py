"""What a run's repair gains over no defence, resample by resample, from the scores in its log.

Runs of one sweep that evaluate the same examples share their resamples, so that the difference between two
variants is paired by example.
"""

from __future__ import annotations

from pathlib import Path

from cachemedicpp.eval.grid import grid_cells
from cachemedicpp.eval.robustness import Array, Robustness, task_scores
from homeostat.core.records import Record, read_jsonl, read_record

_RESAMPLES = 2000


def gains(run_dir: Path, defence: str) -> Array:
    """Area of `defence` minus that of no defence: the data, then each resample `[1 + R]`."""
    found = resampled(run_dir)
    return found.auc(defence) - found.auc("none")


def resampled(run_dir: Path) -> Robustness:
    """All scores of a run over the tasks that its summary counts, with resamples of the examples."""
    record = read_record(run_dir / "metrics" / "task_metrics.json", "metric_record")
    settings, counted = record["settings"], record["metrics"].get("robustness.counted")
    names = list(settings["tasks"]) if counted is None or counted["all"] else counted["tasks"]
    rows: dict[str, list[Record]] = {name: [] for name in settings["tasks"]}
    for row in read_jsonl(run_dir / "logs" / "eval.jsonl"):
        rows[row["task"]].append(row)
    metric = {name: "ppl" if f"task.{name}.ppl" in record["metrics"] else "accuracy" for name in names}
    tasks = [task_scores(name, metric[name], rows[name]) for name in names]
    return Robustness.build(tasks, grid_cells(settings["types"], settings["eps"]), _RESAMPLES, 0)
