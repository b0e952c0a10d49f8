"""The grid: every example, corruption type, epsilon and defence, from one prefill per example.

A prefix is run once. Its cache is forked for every (type, epsilon), corrupted once, and the corrupted forks
are stacked into a batch. Each defence then gets that same batch, so comparisons between defences are paired
by construction. Only the query is run for each of them: what several defences made of the forks before they
are read goes into one batch, which reads the weights once, and a defence that throws away all that damage can
reach has the same score in every cell, so it is run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, TypeVar

import torch

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.shared import shared_layers
from cachemedicpp.cache.state import KVState, stack
from cachemedicpp.corruption import CorruptionFamily, Plan
from cachemedicpp.repair.defences import Defence, Forks
from cachemedicpp.tasks.base import Example, Task

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """A corruption type at a severity. `clean` is epsilon 0: the same for every type."""

    type: str
    epsilon: float
    draw: int = 0  # which of several draws of it

    def as_record(self) -> dict[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon}


CLEAN = Cell("clean", 0.0)


def grid_cells(types: Sequence[str], eps: Sequence[float]) -> list[Cell]:
    """Clean first, then every type at every epsilon above 0."""
    return [CLEAN, *(Cell(name, e) for name in types for e in eps if e > 0)]


def evaluate_example(
    model: Any,
    family: CorruptionFamily,
    task: Task,
    example: Example,
    cells: Sequence[Cell],
    defences: Sequence[Defence],
    fork_batch: int,
    draws: int = 1,
) -> dict[str, Any]:
    """Scores of one example: for each defence a list in the order of `cells`, and the corruption events.

    Every damaged cell is drawn `draws` times, and its score is the mean over them.
    """
    clean = prefill(model, example.stored)
    family = family_for(family, task, example)
    defences = [defence.under(task.axes) for defence in defences]
    scores: dict[str, list[dict[str, Any]]] = {defence.name: [] for defence in defences}
    events: list[dict[str, Any]] = []
    times = [draws if cell.epsilon > 0 else 1 for cell in cells]
    damage = [replace(c, draw=c.draw + n) for c, own in zip(cells, times, strict=True) for n in range(own)]
    with shared_layers(model):
        for chunk in _chunks(damage, fork_batch):
            corrupted, forks = corrupt_forks(clean, family, example, chunk)
            events += [event.as_record() for plan in forks.plans if plan is not None for event in plan.events]
            for group in _together([d for d in defences if not d.discards], fork_batch // len(chunk)):
                found = _scored(model, task, example, group, corrupted, forks)
                for defence, own in zip(group, _chunks(found, len(chunk)), strict=True):
                    scores[defence.name] += own
        for defence in defences:
            if defence.discards:
                once = _scored(model, task, example, [defence], clean, Forks(example.stored, clean, [None]))
                scores[defence.name] = once * len(damage)
    merged = {name: _merged(times, found) for name, found in scores.items()}
    return {"key": example.key, "scores": merged, "events": events}


def _merged(times: Sequence[int], scores: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One score for each cell: the mean over its draws, with the details of the first."""
    left = iter(scores)
    each = [list(islice(left, own)) for own in times]
    return [{**draws[0], "value": fmean(score["value"] for score in draws)} for draws in each]


def _together(defences: Sequence[Defence], most: int) -> Iterator[list[Defence]]:
    """Defences whose forks can be read in one batch: those that attach nothing, `most` at a time."""
    at_rest = [defence for defence in defences if not defence.attaches]
    yield from (list(group) for group in _chunks(at_rest, max(1, most)))
    yield from ([defence] for defence in defences if defence.attaches)


def _scored(
    model: Any, task: Task, example: Example, defences: Sequence[Defence], state: KVState, forks: Forks
) -> list[dict[str, Any]]:
    """The scores of every fork of `state`, under one defence after the other."""
    mended: list[KVState] = []
    with torch.no_grad():
        for defence in defences:
            cache = state.cache()
            defence.mend(model, cache, forks)
            mended.append(KVState(cache))
        batch = stack(mended)
        with defences[0].attached(model, forks):
            return [asdict(score) for score in task.score(model, example, batch.cache(), batch.batch)]


def corrupt_forks(
    clean: KVState, family: CorruptionFamily, example: Example, cells: Sequence[Cell]
) -> tuple[KVState, Forks]:
    """One corrupted fork per cell, stacked in order.

    What is drawn depends on the example, the type and the number of the draw alone.
    """
    states: list[KVState] = []
    plans: list[Plan | None] = []
    for cell in cells:
        cache = clean.cache()
        plan = None
        if cell.epsilon > 0:
            plan = family.at(cell.type, cell.epsilon, cell.draw).corrupt_cache(cache, [example.key])
        states.append(KVState(cache))
        plans.append(plan)
    damaged = stack(states)
    return damaged, Forks(example.stored, clean, plans, damaged)


def family_for(family: CorruptionFamily, task: Task, example: Example) -> CorruptionFamily:
    """The family under the task's masks, its overwrite window where the example has what it asks for."""
    return family.fitted(len(example.stored), task.axes, example.focus)


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
