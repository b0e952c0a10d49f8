"""The tasks of the protocol. A new task is one file with a class like the others and one line here.

Your own tasks need no change here: register them with `register` (docs/howto/task.md).

Hands out `TASKS` and `build_tasks`. May use cache, corruption, guard and repair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachemedicpp.tasks.base import Example, Score, Task
from cachemedicpp.tasks.config import TASK_NAMES
from cachemedicpp.tasks.fewshot import FewshotTask
from cachemedicpp.tasks.induction import InductionTask
from cachemedicpp.tasks.multikey import MultikeyTask
from cachemedicpp.tasks.needle import NeedleTask
from cachemedicpp.tasks.sst2 import Sst2Task
from cachemedicpp.tasks.tracking import TrackingTask
from cachemedicpp.tasks.wikitext2 import Wikitext2Task

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import EvaluationConfig

TASKS: dict[str, Any] = {
    "wikitext2": Wikitext2Task,
    "sst2": Sst2Task,
    "needle": NeedleTask,
    "induction": InductionTask,
    "multikey": MultikeyTask,
    "tracking": TrackingTask,
    "fewshot": FewshotTask,
}

__all__ = ["TASKS", "Example", "Score", "Task", "build_tasks", "register"]


def register(name: str, task: Any) -> None:
    """Let configurations name a task: `task.build(config, model, tokenizer)` makes it."""
    TASKS[name] = task
    if name not in TASK_NAMES:
        TASK_NAMES.append(name)


def build_tasks(config: EvaluationConfig, model: Any, tokenizer: Any) -> list[Task]:
    """Every task the configuration names, with its examples tokenised and checked."""
    return [TASKS[name].build(config, model, tokenizer) for name in config.eval.tasks]
