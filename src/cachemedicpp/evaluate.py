"""The evaluation stage: the grid over every task, one stored result an example, then the task record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cachemedicpp.config import MedicConfig
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.corruption.base import corruption_type
from cachemedicpp.defences import Defence
from cachemedicpp.grid import Cell, evaluate_example, family_for, grid_cells
from cachemedicpp.heuristics import HEURISTICS
from cachemedicpp.overhead import measure_overhead
from cachemedicpp.robustness import Robustness, TaskScores, task_scores
from cachemedicpp.task_metrics import task_metrics
from cachemedicpp.tasks import Task, build_tasks
from cachemedicpp.workers import compute, stage_name
from homeostat.errors import UserError
from homeostat.models import model_identity
from homeostat.progress import progress
from homeostat.records import Record
from homeostat.rundir import RunDir


@dataclass(frozen=True)
class Setup:
    """What every stage needs: the model, the protected layers, the corruption family, the tasks."""

    config: MedicConfig
    model: Any
    tokenizer: Any
    layers: tuple[int, ...]
    family: CorruptionFamily
    tasks: Sequence[Task]

    @property
    def cells(self) -> list[Cell]:
        grid = self.config.eval.corruption_eval
        return grid_cells(grid.types, grid.eps)


def prepare(config: MedicConfig) -> Setup:
    """Load the model, read the data and check the whole configuration, before any long work starts."""
    for name in config.eval.corruption_eval.types:
        corruption_type(name.removeprefix("targeted:"))
    model, tokenizer = config.model.load()
    count = int(model.config.get_text_config().num_hidden_layers)
    layers = config.repair.layers(count)
    check_stability(config, model)
    family = CorruptionFamily.build(config.corruption, model, tokenizer, layers, config.seed)
    tasks = build_tasks(config, model, tokenizer)
    setup = Setup(config, model, tokenizer, layers, family, tasks)
    for task in tasks:
        fitted = family_for(family, task, task.examples[0])
        for cell in setup.cells[1:]:
            fitted.at(cell.type, cell.epsilon)
    return setup


def check_stability(config: MedicConfig, model: Any) -> None:
    """Refuse layers, heads or prompts that the model or the masks do not allow."""
    wanted, text = config.stability, model.config.get_text_config()
    layers, heads = int(text.num_hidden_layers), int(getattr(text, "num_key_value_heads", 0) or 0)
    heads = heads or int(text.num_attention_heads)
    if isinstance(wanted.layers, list) and max(wanted.layers) >= layers:
        raise UserError(f"stability.layers = {wanted.layers}: the model has {layers} layers")
    if wanted.head_subset is not None and not all(0 <= h < heads for h in wanted.head_subset):
        raise UserError(f"stability.head_subset = {wanted.head_subset}: the model has {heads} KV heads")
    recent = config.corruption.axes.N_recent
    if wanted.enabled and wanted.time_mode == "old_only" and wanted.prompt_len - 1 <= recent:
        raise UserError(
            f"stability.prompt_len = {wanted.prompt_len}: old_only with N_recent = {recent} leaves nothing "
            "to perturb; use longer prompts"
        )
    limit = getattr(text, "max_position_embeddings", None)
    if limit is not None and wanted.prompt_len > limit:
        raise UserError(f"stability.prompt_len = {wanted.prompt_len}: the model has {limit} positions")


def evaluate(setup: Setup, run: RunDir, defences: Sequence[Defence], workers: int = 1) -> Record:
    """Run the grid (what a resumed run has already is read back), write `task_metrics.json`, return it."""
    config, cells = setup.config.eval, setup.cells
    keys = [(task.name, index) for task in setup.tasks for index in range(len(task.examples))]
    ready = compute(setup, run, "eval", keys, workers)
    run.log("eval").rewind(0)
    scores: list[TaskScores] = []
    step = 0
    with progress("evaluation", total=sum(len(task.examples) for task in setup.tasks)) as bar:
        for task in setup.tasks:
            results = []
            for index, example in enumerate(task.examples):
                result = run.once(
                    stage_name("eval", task.name, index),
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
                bar.advance(note=f"{task.name} {index + 1}/{len(task.examples)}")
            scores.append(task_scores(task.name, task.metric, results))
    found = Robustness.build(scores, cells, config.bootstrap, setup.config.seed)
    knowledge: dict[str, str] = {defence.name: defence.knowledge for defence in defences}
    heuristics = [name for name in knowledge if name in HEURISTICS]
    metrics = task_metrics(found, knowledge, heuristics)
    if config.measure_overhead:
        metrics["overhead"] = run.once("eval/overhead", lambda: _overhead(setup, defences))
    run.write_metrics("task_metrics", metrics, _settings(setup, knowledge))
    return metrics


def _overhead(setup: Setup, defences: Sequence[Defence]) -> list[Record]:
    """On the longest text at hand, repeated until it fills the context that was asked for."""
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


def _settings(setup: Setup, knowledge: dict[str, str]) -> Record:
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
        "bootstrap": {"resamples": config.eval.bootstrap, "level": 0.95, "over": "examples"},
    }
