"""Evaluating examples in several processes at once, with the same results: every draw has its own seed.

A worker loads the model and the run's repairs once and keeps them. On a machine with few cores, two workers
with one thread each waste less than two threads that wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cachemedicpp.eval.stage import Compute, Setup, evaluated
from cachemedicpp.repair.defences import Defence
from cachemedicpp.runs.defences import run_defences, stability_curves
from cachemedicpp.runs.pipeline import prepared
from cachemedicpp.stability.stage import measure_prompt
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core import threads
from homeostat.core.engine import stream, successes
from homeostat.core.rundir import RunDir


def by_workers(kind: str, config: MedicConfig, run: RunDir, workers: int) -> Compute | None:
    """Let `workers` processes compute the results that are not stored yet; None: this process does."""
    if workers <= 1:
        return None
    shared = {"kind": kind, "run_dir": str(run.path), "config": config.model_dump_json(), "workers": workers}

    def compute(todo: list[int]) -> Iterator[tuple[int, Any]]:
        items = [{**shared, "number": number} for number in todo]
        for place, result in successes(stream(work, items, "local", workers)):
            yield todo[place], result

    return compute


def work(item: Mapping[str, Any]) -> Any:
    """One example or one stability prompt, in a worker process."""
    setup, defences = _surroundings(item["config"], item["run_dir"], item["workers"])
    if item["kind"] == "eval":
        return evaluated(setup, defences, item["number"])
    curves = stability_curves(setup.config.repair.family, Path(item["run_dir"]), defences)
    return measure_prompt(setup, curves, item["number"])


@cache
def _surroundings(config: str, run_dir: str, workers: int) -> tuple[Setup, list[Defence]]:
    torch.set_num_threads(threads.share(workers))
    setup = prepared(MedicConfig.model_validate_json(config))
    return setup, run_defences(setup, Path(run_dir))
