"""Evaluating examples in several processes at once, with the same results: every draw has a seed of its own.

A worker loads the model and the run's repairs once and keeps them. On a machine with few cores, two workers
with one thread each waste less than two threads that wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachemedicpp.config import MedicConfig
from homeostat.engine import run_tasks
from homeostat.rundir import RunDir

if TYPE_CHECKING:
    from cachemedicpp.defences import Defence
    from cachemedicpp.evaluate import Setup

Item = dict[str, Any]


def compute(
    setup: Setup, run: RunDir, kind: str, keys: Sequence[tuple[str, int]], workers: int
) -> dict[tuple[str, int], Any]:
    """Results for `keys` that are not stored yet, computed by `workers` processes; empty for one worker."""
    if workers <= 1:
        return {}
    todo = [key for key in keys if not run.is_done(stage_name(kind, *key))]
    items: list[Item] = [
        {
            "kind": kind,
            "run_dir": str(run.path),
            "config": setup.config.model_dump_json(),
            "task": task,
            "index": index,
            "workers": workers,
        }
        for task, index in todo
    ]
    store = run.path / "stages" / "workers"
    outcomes = run_tasks(work, items, engine="local", workers=workers, label=kind, store=store)
    return {key: outcome.unwrap() for key, outcome in zip(todo, outcomes, strict=True)}


def stage_name(kind: str, task: str, index: int) -> str:
    return f"{kind}/{task}_{index:05d}"


def work(item: Mapping[str, Any]) -> Any:
    """One example or one stability prompt, in a worker process."""
    setup, defences, run_dir = _surroundings(item["config"], item["run_dir"], item["workers"])
    if item["kind"] == "eval":
        from cachemedicpp.grid import evaluate_example

        task = next(task for task in setup.tasks if task.name == item["task"])
        example = task.examples[item["index"]]
        batch = setup.config.eval.fork_batch
        return evaluate_example(setup.model, setup.family, task, example, setup.cells, defences, batch)
    from cachemedicpp.pipeline import stability_curves
    from cachemedicpp.stability_metrics import measure_prompt, prompts

    curves = stability_curves(setup, run_dir, defences)
    return measure_prompt(setup, curves, item["index"], prompts(setup)[item["index"]])


@cache
def _surroundings(config: str, run_dir: str, workers: int) -> tuple[Setup, list[Defence], Path]:
    import os

    import torch

    from cachemedicpp.evaluate import prepare
    from cachemedicpp.pipeline import run_defences

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    setup = prepare(MedicConfig.model_validate_json(config))
    return setup, run_defences(setup, Path(run_dir)), Path(run_dir)
