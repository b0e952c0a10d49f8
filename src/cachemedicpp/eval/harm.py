"""Where an operator does harm: its score against that of no defence in every task and damaged cell.

Many cells are looked at, so some differ by chance: a cell counts as harmed only after Holm's correction over
all cells of the operator. Few examples hide harm: beside the count stands the loss that they can exclude.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from statsmodels.stats.multitest import multipletests

from cachemedicpp.eval.robustness import Robustness, interval
from homeostat.core.records import Record

LEVEL = 0.05


def harm(found: Robustness, operators: Sequence[str]) -> list[Record]:
    """For each operator: its cells, those that are harmed, and the loss that is excluded in all others."""
    return [_of(found, operator) for operator in operators]


def _of(found: Robustness, operator: str) -> Record:
    cells: list[Record] = []
    for task in found.tasks:
        change = found.scores(task, operator) - found.scores(task, "none")  # [1 + R, cells]
        for column, cell in enumerate(found.cells):
            if cell.epsilon == 0:
                continue
            own = change[:, column]
            none_or_gain = (1 + np.sum(own[1:] >= 0)) / len(own)  # one-sided, by the resamples
            spread = interval(own)
            cells.append(
                {
                    "task": task.name,
                    **cell.as_record(),
                    "value": spread.estimate,
                    "ci": [spread.low, spread.high],
                    "p": float(none_or_gain),
                    "excluded": float(max(0.0, -np.quantile(own[1:], LEVEL))),
                }
            )
    harmed = multipletests([entry["p"] for entry in cells], alpha=LEVEL, method="holm")[0]
    for entry, bad in zip(cells, harmed, strict=True):
        entry["harmed"] = bool(bad)
    spared = [entry["excluded"] for entry in cells if not entry["harmed"]]
    return {
        "operator": operator,
        "cells": len(cells),
        "harmed": int(sum(harmed)),
        "excluded": max(spared, default=None),
        "level": LEVEL,
        "correction": "holm",
        "each": cells,
    }
