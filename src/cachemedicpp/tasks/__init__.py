"""The tasks of the protocol. A new one is one file with a class like the others and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachemedicpp.tasks.base import Example, Score, Task
from cachemedicpp.tasks.needle import NeedleTask
from cachemedicpp.tasks.sst2 import Sst2Task
from cachemedicpp.tasks.wikitext2 import Wikitext2Task

if TYPE_CHECKING:
    from cachemedicpp.config import MedicConfig

TASKS: dict[str, Any] = {"wikitext2": Wikitext2Task, "sst2": Sst2Task, "needle": NeedleTask}

__all__ = ["TASKS", "Example", "Score", "Task", "build_tasks"]


def build_tasks(config: MedicConfig, model: Any, tokenizer: Any) -> list[Task]:
    """Every task the configuration names, with its examples tokenised and checked."""
    return [TASKS[name].build(config, model, tokenizer) for name in config.eval.tasks]
