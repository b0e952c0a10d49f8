"""What forgetting costs, which cells a summary counts, and where baselines win: worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cachemedicpp.eval.forgetting import beaten, counted_cells, forgetting_costs
from cachemedicpp.eval.grid import grid_cells
from cachemedicpp.eval.robustness import Robustness, TaskScores
from cachemedicpp.eval.task_metrics import task_metrics

CELLS = grid_cells(["gaussian"], [0.5])  # clean, and one damaged cell


def task(name: str, metric: str = "accuracy", **scores: tuple[float, float]) -> TaskScores:
    """Ten examples with the same scores each, so that intervals have no width."""
    values = {defence: np.tile(np.array(pair), (10, 1)) for defence, pair in scores.items()}
    return TaskScores(name, metric, values, np.ones((10, 2)))


NEEDS = task("needs", none=(1, 0), forget=(0.2, 0.2), reset_clear=(0.4, 0.4), clamp=(1, 0.3), G=(1, 0.9))
IDLE = task("idle", none=(0.5, 0), forget=(0.5, 0.5), reset_clear=(0.1, 0.1), clamp=(0.5, 0.1), G=(0.5, 0.3))
KNOWLEDGE = dict.fromkeys(NEEDS.values, "blind")


def found(*tasks: TaskScores) -> Robustness:
    return Robustness.build(tasks, CELLS, 20, 0)


def test_the_cost_is_what_the_better_way_of_forgetting_loses_of_the_undamaged_score() -> None:
    costs = forgetting_costs(found(NEEDS, IDLE))
    assert [entry["value"] for entry in costs["needs"]] == pytest.approx([0.6, 0.6])
    assert costs["needs"][0]["by"] == "reset_clear" and costs["needs"][0]["counts"]
    assert [entry["value"] for entry in costs["idle"]] == [0.0, 0.0]
    assert costs["idle"][0]["by"] == "forget" and not costs["idle"][0]["counts"]


def test_a_summary_leaves_out_tasks_that_do_not_need_the_cache() -> None:
    metrics = task_metrics(found(NEEDS, IDLE), KNOWLEDGE, ["forget", "reset_clear", "clamp"])
    assert metrics["robustness.counted"]["tasks"] == ["needs"]
    assert metrics["robustness.counted"]["left_out"] == ["idle"]
    area = {entry["defence"]: entry["value"] for entry in metrics["robustness.auc"]}
    assert area["G"] == pytest.approx(0.5 * (1 + 0.9) / 2)  # of `needs` alone
    everywhere = {entry["defence"]: entry["value"] for entry in metrics["robustness.auc_all_tasks"]}
    assert everywhere["G"] == pytest.approx(0.5 * ((1 + 0.5) / 2 + (0.9 + 0.3) / 2) / 2)


def test_where_no_task_needs_the_cache_all_count_and_the_record_says_so() -> None:
    assert counted_cells(forgetting_costs(found(IDLE))) is None
    metrics = task_metrics(found(IDLE), KNOWLEDGE, ["forget", "reset_clear", "clamp"])
    assert metrics["robustness.counted"]["all"] is True


def test_a_cost_that_cannot_be_told_from_nothing_does_not_count() -> None:
    noisy = task("noisy", none=(1, 0), forget=(1, 1), reset_clear=(0, 0))
    noisy.values["forget"][0] = 0.0  # one example of ten lost: some resamples have none of it
    cost = forgetting_costs(found(noisy))["noisy"][0]
    assert cost["value"] == pytest.approx(0.1) and cost["ci"][0] == 0.0 and not cost["counts"]


def test_a_task_counts_only_where_each_half_of_the_examples_says_so() -> None:
    lucky = task("lucky", none=(1, 0), forget=(1, 1), reset_clear=(0, 0))
    lucky.values["forget"][::2] = 0.0  # every even example needs the cache, no odd one does
    cost = forgetting_costs(found(lucky))["lucky"][0]
    assert cost["value"] == pytest.approx(0.5) and cost["ci"][0] > 0 and not cost["counts"]


def test_resamples_of_a_task_do_not_depend_on_the_other_tasks() -> None:
    both, alone = found(IDLE, NEEDS), found(NEEDS)
    assert np.array_equal(both.weights["needs"], alone.weights["needs"])
    assert not np.array_equal(both.weights["needs"], both.weights["idle"])


def test_differences_are_given_over_all_tasks_too() -> None:
    metrics = task_metrics(found(NEEDS, IDLE), KNOWLEDGE, ["forget", "reset_clear", "clamp"])
    gains = {(e["defence"], e["against"]): e["value"] for e in metrics["robustness.auc_difference_all_tasks"]}
    assert gains["G", "none"] == pytest.approx(0.5 * (0.9 / 2 + 0.3 / 2) / 2)


def test_every_cell_in_which_a_baseline_beats_an_operator_is_on_record() -> None:
    entries = beaten(found(NEEDS, IDLE), ["G"], ["forget", "reset_clear", "clamp"])
    assert [(e["task"], e["baseline"], round(e["value"], 6), e["certain"]) for e in entries] == [
        ("idle", "forget", 0.2, True)
    ]


def test_perplexity_enters_relative_to_the_undamaged_one() -> None:
    """Mean log-likelihoods of -3 (clean) and -4: 1, then exp(-1), whatever the level of the perplexity."""
    text = task("text", "ppl", none=(-3, -4), forget=(-5, -5), reset_clear=(-6, -6))
    assert found(text).score("none")[0].tolist() == pytest.approx([1.0, math.exp(-1)])
    assert found(text).score("forget")[0].tolist() == pytest.approx([math.exp(-2)] * 2)
