"""The evaluation stage: the grid over every task, one stored result per example, then the task record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.corruption.base import CORRUPTIONS
from cachemedicpp.eval.grid import Cell, evaluate_example, family_for, grid_cells
from cachemedicpp.eval.overhead import measure_overhead
from cachemedicpp.eval.robustness import Robustness, TaskScores, task_scores
from cachemedicpp.eval.task_metrics import task_metrics
from cachemedicpp.repair.defences import Defence
from cachemedicpp.repair.heuristics import heuristics
from cachemedicpp.tasks import Task, build_tasks
from cachemedicpp.tasks.config import EvaluationConfig
from homeostat.core.memory import keep_freed_memory
from homeostat.core.models import model_identity
from homeostat.core.progress import progress
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir

Key = tuple[str, int]  # a task (or what else is measured) and the number of its example
Spread = Callable[[str, Sequence[Key]], Mapping[Key, Any]]  # kind, keys -> results that other processes found
C = TypeVar("C", bound=EvaluationConfig)
C_co = TypeVar("C_co", bound=EvaluationConfig, covariant=True)


def alone(kind: str, keys: Sequence[Key]) -> Mapping[Key, Any]:
    """No other process helps: every result is computed here."""
    return {}


def stage_name(kind: str, task: str, index: int) -> str:
    return f"{kind}/{task}_{index:05d}"


@dataclass(frozen=True)
class Setup(Generic[C_co]):
    """What every stage needs: the model, the protected layers, the corruption family, the tasks."""

    config: C_co
    model: Any
    tokenizer: Any
    layers: tuple[int, ...]
    family: CorruptionFamily
    tasks: Sequence[Task]

    @property
    def cells(self) -> list[Cell]:
        grid = self.config.eval.corruption_eval
        return grid_cells(grid.types, grid.eps)


def prepare(config: C) -> Setup[C]:
    """Load the model, read the data and check the whole configuration, before any long work starts."""
    keep_freed_memory()
    for name in config.eval.corruption_eval.types:
        CORRUPTIONS[name.removeprefix("targeted:")]
    model, tokenizer = config.model.load()
    count = int(model.config.get_text_config().num_hidden_layers)
    layers = config.repair.layers(count)
    family = CorruptionFamily.build(config.corruption, model, tokenizer, layers, config.seed)
    tasks = build_tasks(config, model, tokenizer)
    setup = Setup(config, model, tokenizer, layers, family, tasks)
    for task in tasks:
        fitted = family_for(family, task, task.examples[0])
        for cell in setup.cells[1:]:
            fitted.at(cell.type, cell.epsilon)
    return setup


def evaluate(
    setup: Setup[EvaluationConfig], run: RunDir, defences: Sequence[Defence], spread: Spread = alone
) -> Record:
    """Run the grid, write `task_metrics.json` and return it. A resumed run reads back its stored results."""
    config, cells = setup.config.eval, setup.cells
    keys = [(task.name, index) for task in setup.tasks for index in range(len(task.examples))]
    ready = spread("eval", keys)
    run.log("eval").rewind(0)
    scores: list[TaskScores] = []
    strict: list[TaskScores] = []
    step = 0
    with progress("evaluation", total=sum(len(task.examples) for task in setup.tasks)) as bar:
        for task in setup.tasks:
            results = []
            for index, example in enumerate(task.examples):
                stage = stage_name("eval", task.name, index)
                kept = run.is_done(stage) or (task.name, index) in ready
                result = run.once(
                    stage,
                    lambda task=task, index=index, example=example: (
                        ready.get((task.name, index))  # type: ignore[misc]
                        or evaluate_example(
                            setup.model, setup.family, task, example, cells, defences, config.fork_batch
                        )
                    ),
                )
                run.log("eval").append(step, task=task.name, **result)
                results.append(result)
                step += 1
                (bar.skip if kept else bar.advance)(1)
                bar.advance(0, note=f"{task.name} {index + 1}/{len(task.examples)}")
            scores.append(task_scores(task.name, task.metric, results))
            if "strict" in results[0]["scores"]["none"][0]["detail"]:
                strict.append(task_scores(task.name, "accuracy", results, "strict"))
    found = Robustness.build(scores, cells, config.bootstrap, setup.config.seed)
    knowledge: dict[str, str] = {defence.name: defence.knowledge for defence in defences}
    single = [name for name in knowledge if name in heuristics()]
    metrics = task_metrics(found, knowledge, single, strict)
    if config.measure_overhead:
        metrics["overhead"] = run.once("eval/overhead", lambda: _overhead(setup, defences))
    run.write_metrics("task_metrics", metrics, _settings(setup, knowledge))
    return metrics


def _overhead(setup: Setup[EvaluationConfig], defences: Sequence[Defence]) -> list[Record]:
    """Measure on the longest available text, repeated until it fills the requested context."""
    config = setup.config.eval
    longest = max((e for task in setup.tasks for e in task.examples), key=lambda e: len(e.stored))
    limit = getattr(setup.model.config.get_text_config(), "max_position_embeddings", None)
    room = (
        config.overhead_context
        if limit is None
        else min(config.overhead_context, limit - config.overhead_tokens)
    )
    ids = (longest.stored * (room // len(longest.stored) + 1))[:room]
    chosen = [d for d in defences if d.knowledge != "oracle"]
    return measure_overhead(setup.model, ids, chosen, config.overhead_tokens, config.overhead_repeats)


def _settings(setup: Setup[EvaluationConfig], knowledge: dict[str, str]) -> Record:
    config = setup.config
    return {
        "model": model_identity(setup.model),
        "seed": config.seed,
        "tasks": {task.name: task.settings for task in setup.tasks},
        "eps": config.eval.corruption_eval.eps,
        "types": config.eval.corruption_eval.types,
        "ood_protocol": config.eval.ood_protocol,
        "protected_layers": list(setup.layers),
        "severity": [
            {**cell.as_record(), "severity": setup.family.corruption(cell.type, cell.epsilon).severity()}
            for cell in setup.cells[1:]
        ],
        "knowledge": knowledge,
        "score": {"ppl": "ppl_clean / ppl", "accuracy": "accuracy"},
        "bootstrap": {"resamples": config.eval.bootstrap, "level": 0.95, "over": "examples"},
    }
