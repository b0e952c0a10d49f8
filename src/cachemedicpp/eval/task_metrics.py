"""`metrics/task_metrics.json`: what the grid measured, under the protocol's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cachemedicpp.eval.forgetting import RULE, WAYS, beaten, count, counted_cells, forgetting_costs
from cachemedicpp.eval.harm import harm
from cachemedicpp.eval.robustness import BEST_HEURISTIC, Robustness, TaskScores, interval, pick_heuristic
from cachemedicpp.repair.registry import DEFENCES
from homeostat.core.records import Record, finite_or_none
from homeostat.core.stats import Interval

Knowledge = Mapping[str, str]


def task_metrics(
    found: Robustness,
    knowledge: Knowledge,
    heuristics: Sequence[str],
    strict: Sequence[TaskScores] = (),
) -> Record:
    """Every metric of the task record. `knowledge` names what each defence knew.

    `strict` are tasks scored a second time, by a stricter rule.
    """
    metrics: Record = {}
    everywhere = found  # all cells of all tasks
    if set(WAYS) <= set(knowledge):
        costs = forgetting_costs(found)
        found = replace(found, counted=counted_cells(costs))
        metrics |= {f"forgetting.{name}": entries for name, entries in costs.items()}
        metrics["robustness.counted"] = {
            "rule": RULE,
            "all": found.counted is None,
            "tasks": [name for name, entries in costs.items() if any(e["counts"] for e in entries)],
            "left_out": [name for name, entries in costs.items() if not any(e["counts"] for e in entries)],
        }
    if heuristics:
        tasks, picked = pick_heuristic(found, heuristics, count if set(WAYS) <= set(knowledge) else None)
        found, everywhere = replace(found, tasks=tasks), replace(everywhere, tasks=tasks)
        knowledge = {**knowledge, BEST_HEURISTIC: "blind"}
        metrics["robustness.best_heuristic"] = picked
        roles = {name: kind.role for name, kind in DEFENCES.items()}
        operators = [name for name in roles if name in knowledge and roles[name] in ("operator", "variant")]
        metrics["robustness.beaten"] = beaten(found, operators, heuristics)
        metrics["robustness.harm"] = harm(found, operators)
    for task in found.tasks:
        metrics[f"task.{task.name}.{task.metric}"] = _entries(found, task, knowledge)
    for task in strict:
        told = {name: knowledge[name] for name in task.values}
        metrics[f"strict.{task.name}"] = _entries(found, task, told)
    perplexity = next((task for task in found.tasks if task.metric == "ppl"), None)
    if perplexity is not None:
        metrics["ppl_clean"], metrics["ppl_corrupted"] = _undefended(found, perplexity)
        metrics["robustness.recovered"] = _recovered(found, perplexity, knowledge)
    metrics["robustness.score"] = _curves(found, knowledge)
    metrics["robustness.by_type"] = _curves_by_type(found, knowledge)
    metrics["robustness.auc"] = [
        _entry(interval(found.auc(name)), defence=name, knowledge=knowledge[name]) for name in knowledge
    ]
    metrics["robustness.auc_all_tasks"] = [
        _entry(interval(everywhere.auc(name)), defence=name, knowledge=knowledge[name]) for name in knowledge
    ]
    metrics["robustness.auc_difference_all_tasks"] = _differences(everywhere, knowledge)
    metrics["robustness.auc_difference"] = _differences(found, knowledge)
    metrics["clean_regression"] = _clean_regression(found, knowledge)
    return metrics


def _entries(found: Robustness, task: TaskScores, knowledge: Knowledge) -> list[Record]:
    entries = []
    for name, told in knowledge.items():
        values = task.metric_of(found.means(task, name))  # [1 + R, cells]
        for column, cell in enumerate(found.cells):
            entries.append(
                _entry(
                    interval(values[:, column]), **cell.as_record(), defence=name, knowledge=told, n=task.n
                )
            )
    return entries


def _undefended(found: Robustness, task: TaskScores) -> tuple[float | None, Record]:
    """`ppl_clean`, and `ppl_corrupted[epsilon][type]`, without any defence."""
    values = task.metric_of(found.means(task, "none"))[0]
    corrupted: dict[str, dict[str, float | None]] = {}
    for cell, value in zip(found.cells, values, strict=True):
        if cell.epsilon > 0:
            corrupted.setdefault(f"{cell.epsilon:g}", {})[cell.type] = finite_or_none(float(value))
    return finite_or_none(float(values[0])), corrupted


def _recovered(found: Robustness, task: TaskScores, knowledge: Knowledge) -> list[Record]:
    """Share of the lost log-likelihood that a defence brings back: 1 is all of it, and below 0 it did harm.

    A cell where nothing was lost (less than 0.001 nats per token) has no share and is left out.
    """
    none = found.means(task, "none")
    lost = none[:, :1] - none  # [1 + R, cells]
    entries = []
    for name, told in knowledge.items():
        if name == "none":
            continue
        gained = found.means(task, name) - none
        for column, cell in enumerate(found.cells):
            if cell.epsilon > 0 and lost[0, column] > 1e-3:
                share = interval(gained[:, column] / lost[:, column])
                entries.append(_entry(share, **cell.as_record(), defence=name, knowledge=told))
    return entries


def _curves(found: Robustness, knowledge: Knowledge) -> list[Record]:
    entries = []
    for name, told in knowledge.items():
        curve = found.score(name)
        for column, epsilon in enumerate(found.eps):
            entries.append(_entry(interval(curve[:, column]), defence=name, knowledge=told, epsilon=epsilon))
    return entries


def _curves_by_type(found: Robustness, knowledge: Knowledge) -> list[Record]:
    entries = []
    for kind in found.types:
        for name, told in knowledge.items():
            curve = found.score(name, only=kind)
            for column, epsilon in enumerate(found.eps):
                point = interval(curve[:, column])
                entries.append(_entry(point, type=kind, defence=name, knowledge=told, epsilon=epsilon))
    return entries


def _differences(found: Robustness, knowledge: Knowledge) -> list[Record]:
    """Paired differences of areas, against no defence and against the best heuristic."""
    entries = []
    for against in ("none", BEST_HEURISTIC):
        if against not in knowledge:
            continue
        base = found.auc(against)
        for name, told in knowledge.items():
            if name != against:
                difference = interval(found.auc(name) - base)
                entries.append(_entry(difference, defence=name, knowledge=told, against=against))
    return entries


def _clean_regression(found: Robustness, knowledge: Knowledge) -> list[Record]:
    """What a defence costs on a clean cache (epsilon 0): relative perplexity, and lost accuracy."""
    entries = []
    for name, told in knowledge.items():
        tasks: Record = {}
        for task in found.tasks:
            own, none = found.means(task, name)[:, 0], found.means(task, "none")[:, 0]
            if task.metric == "ppl":
                change = task.metric_of(own) / task.metric_of(none) - 1
                tasks[f"{task.name}.ppl_relative"] = _entry(interval(change))
            else:
                tasks[f"{task.name}.accuracy_lost"] = _entry(interval(none - own))
        score = found.score("none")[:, 0] - found.score(name)[:, 0]
        entries.append(_entry(interval(score), defence=name, knowledge=told, tasks=tasks))
    return entries


def _entry(found: Interval, **fields: Any) -> Record:
    ci = [finite_or_none(found.low), finite_or_none(found.high)]
    return {**fields, "value": finite_or_none(found.estimate), "ci": ci}
