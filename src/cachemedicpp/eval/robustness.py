"""From per-example scores to the figures of the record: task metrics, robustness curves, areas, intervals.

Every interval comes from one set of resamples of the examples, shared by all cells and defences. So a
difference between two defences is taken within a resample, which is what a paired comparison means.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachemedicpp.eval.grid import Cell
from homeostat.core.stats import Interval

Array = NDArray[np.float64]
Counted = Mapping[str, NDArray[np.bool_]] | None  # by task: which cells count; None: all
BEST_HEURISTIC = "best_heuristic"
RULE = (
    "the blind heuristic with the largest area under its robustness curve, chosen on the examples with even "
    "numbers and reported on those with odd numbers, and the other way round"
)


@dataclass(frozen=True)
class TaskScores:
    """One task's scores: for each defence `values[example, cell]` and the counts they are sums over."""

    name: str
    metric: str
    values: Mapping[str, Array]
    counts: Array  # [n, cells]

    @property
    def n(self) -> int:
        return int(self.counts.shape[0])

    def means(self, defence: str, weights: Array) -> Array:
        """Mean log-likelihood per token, or accuracy, for each resample and cell: `[R, cells]`."""
        return (weights @ self.values[defence]) / (weights @ self.counts)

    def metric_of(self, means: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(-means) if self.metric == "ppl" else means

    def score_of(self, means: Array, clean: Array) -> Array:
        """`ppl_clean / ppl` (`clean` are the undamaged, undefended means), or accuracy: larger is better.

        Relative to clean, a task with a perplexity of 20 weighs as much as one with an accuracy of 1.
        """
        with np.errstate(over="ignore"):
            return np.exp(means - clean) if self.metric == "ppl" else means


def task_scores(
    name: str, metric: str, results: Sequence[Mapping[str, Any]], detail: str | None = None
) -> TaskScores:
    """Collect what `evaluate_example` returned for every example of a task: scores, or one detail."""
    names = list(results[0]["scores"])

    def value(score: Mapping[str, Any]) -> float:
        return float(score["value"] if detail is None else score["detail"][detail])

    values = {d: np.array([[value(s) for s in r["scores"][d]] for r in results], dtype=float) for d in names}
    counts = np.array([[s["count"] for s in r["scores"][names[0]]] for r in results], dtype=float)
    return TaskScores(name, metric, values, counts)


@dataclass(frozen=True)
class Robustness:
    """All tasks over the same cells, with resampling weights `[1 + R, n]`; the first row is the data.

    `counted` says which cells of a task a summary is taken over; None: all cells of all tasks.
    """

    tasks: Sequence[TaskScores]
    cells: Sequence[Cell]
    weights: Mapping[str, Array]
    counted: Counted = None

    @classmethod
    def build(
        cls, tasks: Sequence[TaskScores], cells: Sequence[Cell], resamples: int, seed: int
    ) -> Robustness:
        weights = {}
        for task in tasks:  # seeded by name: the same resamples whatever other tasks there are
            rng = np.random.default_rng([seed, zlib.crc32(task.name.encode("utf-8"))])
            drawn = rng.multinomial(task.n, np.full(task.n, 1 / task.n), size=resamples).astype(float)
            weights[task.name] = np.vstack([np.ones((1, task.n)), drawn])
        return cls(tasks, cells, weights)

    @property
    def eps(self) -> list[float]:
        return sorted({cell.epsilon for cell in self.cells})

    @property
    def types(self) -> list[str]:
        return list(dict.fromkeys(cell.type for cell in self.cells if cell.epsilon > 0))

    def means(self, task: TaskScores, defence: str) -> Array:
        return task.means(defence, self.weights[task.name])

    def scores(self, task: TaskScores, defence: str) -> Array:
        """A task's score for each resample and cell, `[1 + R, cells]`."""
        return task.score_of(self.means(task, defence), self.means(task, "none")[:, :1])

    def score(self, defence: str, only: str | None = None) -> Array:
        """Robustness score for each resample and epsilon, `[1 + R, E]`: mean over types, then over tasks.

        `only` restricts it to one corruption type.
        """
        curve = []
        for epsilon in self.eps:
            per_task = []
            for task in self.tasks:
                columns = [c for c in self._columns(epsilon, only) if self._counts(task, c)]
                if columns:
                    per_task.append(self.scores(task, defence)[:, columns].mean(axis=1))
            curve.append(np.mean(per_task, axis=0))
        return np.stack(curve, axis=1)

    def auc(self, defence: str, only: str | None = None) -> Array:
        """Area under the robustness curve over epsilon, by the trapezoid rule: `[1 + R]`."""
        return np.asarray(np.trapezoid(self.score(defence, only), self.eps, axis=1))

    def _counts(self, task: TaskScores, column: int) -> bool:
        return self.counted is None or bool(self.counted[task.name][column])

    def _columns(self, epsilon: float, only: str | None) -> list[int]:
        wanted = [
            i
            for i, c in enumerate(self.cells)
            if c.epsilon == epsilon and (epsilon == 0 or only in (None, c.type))
        ]
        if not wanted:
            raise ValueError(f"no cell has epsilon {epsilon} and type {only}")
        return wanted


def interval(samples: Array, level: float = 0.95) -> Interval:
    """The first entry with the percentile interval of the others."""
    tail = (1 - level) / 2
    low, high = np.quantile(samples[1:], [tail, 1 - tail])
    return Interval(float(samples[0]), float(low), float(high), level)


def halves(found: Robustness) -> list[Robustness]:
    """The examples with even numbers, and those with odd numbers, each with resamples of its own."""
    resamples = len(next(iter(found.weights.values()))) - 1
    return [
        Robustness.build([_half(task, fold) for task in found.tasks], found.cells, resamples, fold)
        for fold in (0, 1)
    ]


def pick_heuristic(
    found: Robustness, heuristics: Sequence[str], count: Callable[[Robustness], Counted] | None = None
) -> tuple[list[TaskScores], dict[str, Any]]:
    """Tasks with one more defence, the best heuristic by two-fold cross-fitting, and how it was picked.

    `count` decides which cells of a half are counted, from that half alone.
    """
    chosen, areas = [], []
    for half in halves(found):
        half = half if count is None else replace(half, counted=count(half))
        area = {name: float(half.auc(name)[0]) for name in heuristics}
        areas.append(area)
        chosen.append(max(area, key=lambda name: (area[name], name)))
    tasks = []
    for task in found.tasks:
        parity = np.arange(task.n) % 2
        mixed = np.where(parity[:, None] == 1, task.values[chosen[0]], task.values[chosen[1]])
        tasks.append(TaskScores(task.name, task.metric, {**task.values, BEST_HEURISTIC: mixed}, task.counts))
    overall = {name: float(found.auc(name)[0]) for name in heuristics}
    record = {
        "rule": RULE,
        "chosen_on_even": chosen[0],
        "chosen_on_odd": chosen[1],
        "auc_on_even": areas[0],
        "auc_on_odd": areas[1],
        "overall": max(overall, key=lambda name: (overall[name], name)),
        "auc_overall": overall,
    }
    return tasks, record


def _half(task: TaskScores, fold: int) -> TaskScores:
    """Every second example; a task with a single example has no halves and is used whole."""
    keep = np.arange(task.n) % 2 == fold if task.n > 1 else np.ones(1, dtype=bool)
    return TaskScores(task.name, task.metric, {d: v[keep] for d, v in task.values.items()}, task.counts[keep])
