"""The evaluation stage: the grid over every task, one stored result per example, then the task record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cachemedicpp.cache.prefill import most_positions
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.corruption.base import CORRUPTIONS
from cachemedicpp.eval.grid import Cell, evaluate_example, family_for, grid_cells
from cachemedicpp.eval.overhead import measure_overhead
from cachemedicpp.eval.robustness import Robustness, TaskScores, task_scores
from cachemedicpp.eval.task_metrics import task_metrics
from cachemedicpp.repair.defences import Defence
from cachemedicpp.repair.heuristics import heuristics
from cachemedicpp.tasks import Example, Task, build_tasks
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.memory import keep_freed_memory
from homeostat.core.models import model_identity
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir

Compute = Callable[[list[int]], Iterable[tuple[int, Any]]]  # numbers of results that are missing -> results


@dataclass(frozen=True)
class Setup:
    """What every stage needs: the model, the protected layers, the corruption family, the tasks."""

    config: MedicConfig
    model: Any
    tokenizer: Any
    layers: tuple[int, ...]
    family: CorruptionFamily
    tasks: Sequence[Task]
    prompts: tuple[Sequence[tuple[int, ...]], Record] = ((), {})  # of the stability stage, and their source

    @property
    def cells(self) -> list[Cell]:
        grid = self.config.eval.corruption_eval
        return grid_cells(grid.types, grid.eps)

    @cached_property
    def examples(self) -> list[tuple[Task, Example]]:
        """Every example of every task, in the order in which they are evaluated."""
        return [(task, example) for task in self.tasks for example in task.examples]


def prepare(config: MedicConfig) -> Setup:
    """Load the model, read the data and check the whole configuration, before any long work starts."""
    keep_freed_memory()
    for name in config.eval.corruption_eval.types:
        CORRUPTIONS[name.removeprefix("targeted:")]
    model, tokenizer = config.model.load()
    layers = config.repair.layers(Geometry.of(model).layers)
    family = CorruptionFamily.build(config.corruption, model, tokenizer, layers, config.seed)
    tasks = build_tasks(config, model, tokenizer)
    setup = Setup(config, model, tokenizer, layers, family, tasks)
    for task in tasks:
        fitted = family_for(family, task, task.examples[0])
        for cell in setup.cells[1:]:
            fitted.at(cell.type, cell.epsilon)
    return setup


def evaluated(setup: Setup, defences: Sequence[Defence], number: int) -> Record:
    """The scores of one example in every cell under every defence."""
    task, example = setup.examples[number]
    batch, draws = setup.config.eval.fork_batch, setup.config.eval.corruption_eval.draws
    return evaluate_example(setup.model, setup.family, task, example, setup.cells, defences, batch, draws)


def evaluate(
    setup: Setup, run: RunDir, defences: Sequence[Defence], compute: Compute | None = None
) -> Record:
    """Run the grid, write `task_metrics.json` and return it. A resumed run reads back its stored results."""
    config, cells, examples = setup.config.eval, setup.cells, setup.examples
    names = [f"{task.name}_{index:05d}" for task in setup.tasks for index in range(len(task.examples))]
    results = run.each(
        "eval",
        names,
        compute or (lambda todo: ((number, evaluated(setup, defences, number)) for number in todo)),
        label="evaluation",
        told=lambda number: {"task": examples[number][0].name},
    )
    scores: list[TaskScores] = []
    strict: list[TaskScores] = []
    for task in setup.tasks:
        own = [result for (other, _), result in zip(examples, results, strict=True) if other is task]
        scores.append(task_scores(task.name, task.metric, own))
        if "strict" in own[0]["scores"]["none"][0]["detail"]:
            strict.append(task_scores(task.name, "accuracy", own, "strict"))
    found = Robustness.build(scores, cells, config.bootstrap, setup.config.seed)
    knowledge: dict[str, str] = {defence.name: defence.knowledge for defence in defences}
    single = [name for name in knowledge if name in heuristics()]
    metrics = task_metrics(found, knowledge, single, strict)
    if config.measure_overhead:
        metrics["overhead"] = run.once("eval/overhead", lambda: _overhead(setup, defences))
    run.write_metrics("task_metrics", metrics, _settings(setup, knowledge))
    return metrics


def _overhead(setup: Setup, defences: Sequence[Defence]) -> list[Record]:
    """Measure on the longest available text, repeated until it fills the requested context."""
    config = setup.config.eval
    stored = max((example.stored for _, example in setup.examples), key=len)
    room, limit = config.overhead_context, most_positions(setup.model)
    room = room if limit is None else min(room, limit - config.overhead_tokens)
    ids = (stored * (room // len(stored) + 1))[:room]
    chosen = [d for d in defences if d.knowledge != "oracle"]
    return measure_overhead(setup.model, ids, chosen, config.overhead_tokens, config.overhead_repeats)


def _settings(setup: Setup, knowledge: dict[str, str]) -> Record:
    config = setup.config
    return {
        "model": model_identity(setup.model),
        "seed": config.seed,
        "tasks": {task.name: task.settings for task in setup.tasks},
        "eps": config.eval.corruption_eval.eps,
        "types": config.eval.corruption_eval.types,
        "draws": config.eval.corruption_eval.draws,
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
