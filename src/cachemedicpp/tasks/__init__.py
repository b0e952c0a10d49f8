"""The tasks of the protocol. A task is one file in this folder: a registered class, and its settings.

Tasks of your own are registered the same way, in a file that you import or in a package with an entry point
(docs/howto/task.md).

Hands out `TASKS` and `build_tasks`. May use cache, corruption, guard and repair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachemedicpp.tasks.base import TASKS, Example, Score, Task, register

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

__all__ = ["TASKS", "Example", "Score", "Task", "build_tasks", "register"]


def build_tasks(config: MedicConfig, model: Any, tokenizer: Any) -> list[Task]:
    """Every task the configuration names, with its examples tokenised and checked."""
    return [TASKS[name].build(config, model, tokenizer) for name in config.eval.tasks]
