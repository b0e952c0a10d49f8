"""Evaluating examples in several processes at once, with the same results: every draw has its own seed.

A worker loads the model and the run's repairs once and keeps them. On a machine with few cores, two workers
with one thread each waste less than two threads that wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cachemedicpp.eval.grid import evaluate_example
from cachemedicpp.eval.stage import Key, Setup, Spread, alone, prepare, stage_name
from cachemedicpp.repair.defences import Defence
from cachemedicpp.runs.config import MedicConfig
from cachemedicpp.runs.defences import run_defences, stability_curves
from cachemedicpp.stability.prompts import prompts
from cachemedicpp.stability.stage import measure_prompt
from homeostat.core.engine import run_tasks
from homeostat.core.rundir import RunDir


def by_workers(config: MedicConfig, run: RunDir, workers: int) -> Spread:
    """Let `workers` processes compute the results that are not stored yet. One worker computes none."""
    if workers <= 1:
        return alone

    def compute(kind: str, keys: Sequence[Key]) -> dict[Key, Any]:
        todo = [key for key in keys if not run.is_done(stage_name(kind, *key))]
        shared = {"kind": kind, "run_dir": str(run.path), "config": config.model_dump_json()}
        items = [{**shared, "task": task, "index": index, "workers": workers} for task, index in todo]
        store = run.path / "stages" / "workers"
        outcomes = run_tasks(work, items, engine="local", workers=workers, label=kind, store=store)
        return {key: outcome.unwrap() for key, outcome in zip(todo, outcomes, strict=True)}

    return compute


def work(item: Mapping[str, Any]) -> Any:
    """One example or one stability prompt, in a worker process."""
    where = (item["config"], item["run_dir"], item["workers"])
    setup, defences = _surroundings(*where)
    if item["kind"] == "eval":
        task = next(task for task in setup.tasks if task.name == item["task"])
        example = task.examples[item["index"]]
        batch = setup.config.eval.fork_batch
        return evaluate_example(setup.model, setup.family, task, example, setup.cells, defences, batch)
    curves = stability_curves(setup, Path(item["run_dir"]), defences)
    return measure_prompt(setup, curves, item["index"], _prompts(*where)[item["index"]])


@cache
def _surroundings(config: str, run_dir: str, workers: int) -> tuple[Setup[MedicConfig], list[Defence]]:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    setup = prepare(MedicConfig.model_validate_json(config))
    return setup, run_defences(setup, Path(run_dir))


@cache
def _prompts(config: str, run_dir: str, workers: int) -> list[tuple[int, ...]]:
    return prompts(_surroundings(config, run_dir, workers)[0])[0]
