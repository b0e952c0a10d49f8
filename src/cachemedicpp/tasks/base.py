"""What a task is: examples with a stored part and a query, and a score for every fork of the stored part.

The model runs the stored part once, clean. What the cache then holds is corrupted and repaired, fork by fork,
and the query is answered from it. Corruption therefore always hits a stored cache, never a prefill.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from cachemedicpp.cache.prefill import most_positions
from cachemedicpp.corruption.masks import AxesConfig
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError
from homeostat.core.progress import say
from homeostat.core.registry import Registry, Shown

if TYPE_CHECKING:
    from transformers import Cache

    from cachemedicpp.tasks.config import MedicConfig


@dataclass(frozen=True)
class Example:
    """`stored` tokens live in the cache; `query` tokens are run on every fork; `target` is what is right."""

    key: str
    stored: tuple[int, ...]
    query: tuple[int, ...]
    target: Any
    focus: int | None = None  # the stored position where what has to be remembered begins, if it is one place
    span: int = 1  # how many positions it takes


@dataclass(frozen=True)
class Score:
    """One fork's result on one example. `value` adds up: a log-likelihood, or 1 for a right answer."""

    value: float
    count: int = 1
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task(ABC):
    """A set of examples and their score. `axes` are the masks their caches are corrupted under."""

    axes: AxesConfig
    examples: Sequence[Example]
    settings: dict[str, Any]  # for the record
    name: ClassVar[str]
    metric: ClassVar[str]  # `ppl` or `accuracy`

    @classmethod
    @abstractmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> Task:
        """The task as configured, its examples tokenised and checked."""

    @abstractmethod
    def score(self, model: Any, example: Example, cache: Cache, forks: int) -> list[Score]:
        """Answer `example` from `forks` caches stacked in one batch. The cache is used up."""

    @classmethod
    def of(cls, axes: AxesConfig, examples: Sequence[Example], settings: dict[str, Any], **own: Any) -> Self:
        """The task with these examples; those that the time mask would leave untouched are refused."""
        shortest = min(len(example.stored) for example in examples)
        if shortest <= axes.recent:
            raise UserError(
                f"task {cls.name}: its shortest prompt stores {shortest} tokens, and old_only with "
                f"N_recent = {axes.recent} corrupts none of them; use longer prompts or a smaller N_recent "
                "for this task"
            )
        told = {"n": len(examples), "time_mode": axes.time_mode, "N_recent": axes.N_recent}
        return cls(axes, examples, settings | told, **own)

    @classmethod
    def generated(
        cls,
        config: MedicConfig,
        axes: AxesConfig,
        draw: Callable[[int, int, int], Example],
        settings: dict[str, Any],
        draws: int = 100,
        **own: Any,
    ) -> Self:
        """The task with the first of `draws` draws of each example that needs what damage can reach.

        `draw` gets the seed, the number of the example and the number of the draw.
        """
        wanted: GeneratedConfig = getattr(config.data, TASKS[cls.name].section)
        seed = config.seed if wanted.seed is None else wanted.seed
        examples = []
        for index in range(wanted.num_examples):
            drawn = (draw(seed, index, number) for number in range(draws))
            example = next((one for one in drawn if within_reach(one, axes)), None)
            if example is None:
                raise UserError(
                    f"task {cls.name}: in {draws} draws what has to be remembered never stood wholly before "
                    f"the last N_recent = {axes.N_recent} stored tokens; use longer prompts or a smaller "
                    "N_recent"
                )
            examples.append(example)
        source = {"dataset": cls.name, "origin": "generator", "seed": seed}
        return cls.of(axes, examples, {"source": source, **settings}, **own)


class GeneratedConfig(ConfigModel):
    """What every generated task has: how many prompts, and how long they are."""

    num_examples: int = Field(64, ge=1)
    seed: int | None = Field(None, ge=0, description="null: the run's seed")
    context_len: int = Field(256, ge=48, description="tokens of a prompt")


@dataclass(frozen=True)
class TaskKind:
    """A task by name: how it is built, and its settings, which stand in `data.<section>`."""

    build: Callable[[MedicConfig, Any, Any], Task]
    settings: type[ConfigModel] | None
    section: str


TASKS: Registry[TaskKind] = Registry("task", "cachemedicpp.tasks")
T = TypeVar("T", bound=type[Task])


def register(
    name: str,
    label: str = "",
    means: str = "",
    *,
    metric: str = "accuracy",
    settings: type[ConfigModel] | None = None,
    section: str | None = None,
    term: str = "",
    order: int = 100,
) -> Callable[[T], T]:
    """Let configurations name a task: the class's `build(config, model, tokenizer)` makes it.

    Pages call its `metric` by `label`. `settings` is the class of its section in `data:`.
    """

    def add(task: T) -> T:
        task.name, task.metric = name, metric
        kind = TaskKind(task.build, settings, section or name)
        shown = Shown("task", label or f"{name} {metric}", means, term, order=order)
        TASKS.add(name, kind, shown, spelling=f"{name}.{metric}")
        return task

    return add


def rows(ids: Sequence[int], count: int, model: Any) -> Tensor:
    """The same tokens for every fork: `[forks, T]`."""
    return torch.tensor([list(ids)], device=model.device).expand(count, -1)


def within_reach(example: Example, axes: AxesConfig) -> bool:
    """Whether damage can reach all of what has to be remembered, so that the task needs it."""
    needed = 0 if example.focus is None else example.focus + example.span
    return needed <= len(example.stored) - axes.recent


def short(name: str, found: int, asked: int, setting: str) -> None:
    """Say that a task has fewer examples than were asked for."""
    if found < asked:
        say(f"warning: task {name} has {found} examples, not the {asked} that {setting} asks for")


def check_length(name: str, needed: int, setting: str, model: Any) -> None:
    """Refuse prompts longer than the model's positions, before anything runs."""
    limit = most_positions(model)
    if limit is not None and needed > limit:
        raise UserError(f"task {name}: {setting} needs {needed} positions and the model has {limit}")
