"""What forgetting costs, and where a repair is worth less than a baseline.

A task on which a model does as well without the damaged part of its cache says nothing about repairing it. So
every task and cell has its cost of forgetting on the record, and summaries count only the cells in which this
cost is measurable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cachemedicpp.eval.robustness import Array, Counted, Robustness, TaskScores, halves, interval
from homeostat.core.records import Record, finite_or_none
from homeostat.core.stats import Interval

WAYS = ("forget", "reset_clear")  # hide the old positions, or zero them
CALIBRATED_WAY = "forget_sink"  # hide all but the first, whose mean is known: where levels were measured
CHEAP = (*WAYS, CALIBRATED_WAY, "limits_forget")  # shown beside the strongest baseline
RULE = (
    "a cell counts where forgetting every position that damage can reach costs part of the undamaged score, "
    "by a 95 % interval above 0 in each half of the examples; where no cell of any task does, all cells count"
)


def forgetting_costs(found: Robustness) -> dict[str, list[Record]]:
    """For each task and cell: the undamaged, undefended score minus that of forgetting, paired by example.

    Of the ways to forget all that damage can reach, the one with the best score on the task is taken: `by`.
    """
    costs = {}
    sides = halves(found)
    for number, task in enumerate(found.tasks):
        present = [way for way in (*WAYS, CALIBRATED_WAY) if way in task.values]
        ways = {way: found.scores(task, way) for way in present}  # [1 + R, cells]
        by = max(ways, key=lambda way: float(ways[way][0].mean()))
        lost = lost_in(found, task, by)
        each = [lost_in(side, side.tasks[number], by) for side in sides]
        entries = []
        for column, cell in enumerate(found.cells):
            cost = interval(lost[:, column])
            counts = all(interval(half[:, column]).low > 0 for half in each)
            entries.append(_entry(cost, **cell.as_record(), by=by, counts=counts))
        costs[task.name] = entries
    return costs


def lost_in(found: Robustness, task: TaskScores, way: str) -> Array:
    """What a way of forgetting costs of the undamaged, undefended score, `[1 + R, cells]`."""
    return found.scores(task, "none")[:, :1] - found.scores(task, way)


def count(found: Robustness) -> Counted:
    """Which cells of each task count by these examples alone; for a half that picks the best heuristic."""
    costs = forgetting_costs(found)
    return counted_cells(
        {name: [{**e, "counts": (e["ci"][0] or 0) > 0} for e in entries] for name, entries in costs.items()}
    )


def counted_cells(costs: Mapping[str, Sequence[Record]]) -> dict[str, Any] | None:
    """Which cells of each task a summary counts; None where none would be left at some epsilon."""
    counted = {task: np.array([entry["counts"] for entry in entries]) for task, entries in costs.items()}
    some = next(iter(costs.values()))
    for epsilon in {entry["epsilon"] for entry in some}:
        here = np.array([entry["epsilon"] == epsilon for entry in some])
        if not any(bool((cells & here).any()) for cells in counted.values()):
            return None
    return counted


def beaten(found: Robustness, operators: Sequence[str], baselines: Sequence[str]) -> list[Record]:
    """Every task and damaged cell in which forgetting, or the strongest baseline there, beats an operator.

    The difference of the task's scores is paired by example; `certain` where its interval is above 0.
    """
    entries = []
    for task in found.tasks:
        scores = {name: found.scores(task, name) for name in (*operators, *baselines)}
        for column, cell in enumerate(found.cells):
            if cell.epsilon == 0:
                continue
            at = {name: float(scores[name][0, column]) for name in baselines}
            strongest = max(at, key=lambda name: (at[name], name))
            for operator in operators:
                for baseline in dict.fromkeys((*CHEAP, strongest)):
                    if baseline not in scores:
                        continue
                    ahead = interval(scores[baseline][:, column] - scores[operator][:, column])
                    if ahead.estimate > 0:
                        fields = {"task": task.name, **cell.as_record(), "operator": operator}
                        entries.append(
                            _entry(ahead, **fields, baseline=baseline, certain=bool(ahead.low > 0))
                        )
    return entries


def _entry(found: Interval, **fields: Any) -> Record:
    ci = [finite_or_none(found.low), finite_or_none(found.high)]
    return {**fields, "value": finite_or_none(found.estimate), "ci": ci}
