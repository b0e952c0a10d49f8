"""Harm is counted after a correction for the number of cells, and what few examples can exclude is said."""

from __future__ import annotations

import numpy as np

from cachemedicpp.eval.grid import grid_cells
from cachemedicpp.eval.harm import harm
from cachemedicpp.eval.robustness import Robustness, TaskScores


def found(none: np.ndarray, operator: np.ndarray) -> Robustness:
    """One task with a clean cell and as many damaged ones as there are columns."""
    n, cells = none.shape
    grid = grid_cells(["gaussian"], [0.1 * (i + 1) for i in range(cells)])
    values = {name: np.hstack([np.ones((n, 1)), x]) for name, x in (("none", none), ("E", operator))}
    task = TaskScores("keys", "accuracy", values, np.ones((n, cells + 1)))
    return Robustness.build([task], grid, 2000, 0)


def test_an_operator_that_changes_nothing_harms_nothing_and_excludes_any_loss() -> None:
    same = np.tile([1.0, 0.0], 20).reshape(40, 1).repeat(30, axis=1)
    record = harm(found(same, same), ["E"])[0]
    assert (record["cells"], record["harmed"], record["excluded"]) == (30, 0, 0.0)


def test_a_loss_everywhere_is_found_among_many_cells_and_one_by_chance_is_not() -> None:
    rng = np.random.default_rng(0)
    none = (rng.random((100, 30)) < 0.8).astype(float)
    operator = none.copy()
    operator[:, 3] = 0.0
    record = harm(found(none, operator), ["E"])[0]
    assert record["harmed"] == 1 and record["each"][3]["harmed"]
    noisy = (rng.random((100, 30)) < 0.8).astype(float)  # as good as `none`, drawn anew
    record = harm(found(none, noisy), ["E"])[0]
    assert record["harmed"] == 0
    assert any(cell["ci"][1] < 0 or cell["p"] < 0.1 for cell in record["each"])  # by chance alone


def test_few_examples_exclude_only_large_losses() -> None:
    rng = np.random.default_rng(1)
    none, operator = ((rng.random((1000, 1)) < 0.7).astype(float) for _ in range(2))
    few = harm(found(none[:12], operator[:12]), ["E"])[0]["excluded"]
    many = harm(found(none, operator), ["E"])[0]["excluded"]
    assert few > 0.15 > 0.07 > many
