"""Multiple choice: the continuation with the largest log-probability per token wins."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.tasks.base import Example, Score, check_length, check_stored, reaching
from cachemedicpp.tasks.haystack import fill, token_at
from homeostat.core.config import ConfigModel

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

# Names, places and things for generated prompts. Values are single tokens in most vocabularies.
VALUES = (
    "red", "blue", "green", "black", "white", "gold", "silver", "pink", "brown", "orange", "stone", "river",
    "garden", "window", "table", "bridge", "castle", "forest", "island", "summer", "winter", "morning",
    "bread", "water", "fire", "music", "paper", "glass", "horse", "tiger", "eagle", "lion",
)  # fmt: skip


class GeneratedConfig(ConfigModel):
    """What every generated task has: how many prompts, and how long they are."""

    num_examples: int = Field(64, ge=1)
    seed: int | None = Field(None, ge=0, description="null: the run's seed")
    context_len: int = Field(256, ge=48, description="tokens of a prompt")


@dataclass(frozen=True)
class Question:
    """Statements and their places (shares of the filler), what is asked, the choices, the right one."""

    statements: Sequence[tuple[float, str]]
    asked: str
    choices: Sequence[str]
    right: int
    needed: Sequence[str]  # the statements that lead to the answer, as they follow each other


@dataclass(frozen=True)
class ChoiceTask:
    """Prompts with fixed continuations. `target` is the right one's number and the tokens of all."""

    name: str
    axes: AxesConfig
    examples: Sequence[Example]
    settings: dict[str, Any]
    metric: str = "accuracy"

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        right, choices = example.target
        found = label_logprobs(model, example.query, choices, cache, forks)  # [F, choices]
        each = (found / found.new_tensor([len(choice) for choice in choices])).tolist()
        return [Score(float(row.index(max(row)) == right), detail={"logprobs": row}) for row in each]


def choice_task(
    name: str,
    config: MedicConfig,
    wanted: GeneratedConfig,
    model: Any,
    tokenizer: Any,
    ask: Callable[[random.Random], Question],
) -> ChoiceTask:
    """Examples of `ask`, their statements among as much filler as fills the context."""
    check_length(name, wanted.context_len + 8, f"data.{name}.context_len = {wanted.context_len}", model)
    seed = config.seed if wanted.seed is None else wanted.seed
    axes = config.corruption.axes

    def drawn(index: int, number: int) -> Example:
        key = f"{name}:{seed}:{index}"
        rng = random.Random(f"{key}:{number}" if number else key)
        question = ask(rng)

        def render(context: str) -> tuple[str, list[int]]:
            text = f"{context}{question.asked}"
            return text, list(tokenizer(text)["input_ids"])

        text, ids = fill(rng, question.statements, render, wanted.context_len, f"data.{name}.context_len")
        choices = [tuple(tokenizer(c, add_special_tokens=False)["input_ids"]) for c in question.choices]
        begins = [token_at(tokenizer, text, ids, statement) for statement in question.needed]
        last = len(tokenizer(question.needed[-1], add_special_tokens=False)["input_ids"])
        span = begins[-1] + last - begins[0]
        target = (question.right, choices)
        return Example(key, tuple(ids[:-1]), tuple(ids[-1:]), target, begins[0], span)

    examples = [
        reaching(name, axes, lambda number, index=index: drawn(index, number))  # type: ignore[misc]
        for index in range(wanted.num_examples)
    ]
    check_stored(name, examples, axes)
    settings = {
        "source": {"dataset": name, "origin": "generator", "seed": seed},
        "context_len": wanted.context_len,
        "choices": len(examples[0].target[1]),
        "n": len(examples),
        "time_mode": axes.time_mode,
        "N_recent": axes.N_recent,
    }
    return ChoiceTask(name, axes, examples, settings)


def label_logprobs(
    model: Any, query: Sequence[int], labels: Sequence[Sequence[int]], cache: Any, forks: int
) -> Any:
    """Log-probability of each label after `query`, summed over the label's tokens: `[forks, labels]`.

    Labels of one token need one row per fork. Longer ones get a row each. Shorter labels are padded on the
    right, where causal attention keeps padding out of every score.
    """
    import torch

    longest = max(len(label) for label in labels)
    if longest == 1:
        ids = torch.tensor([list(query)] * forks, device=model.device)
        logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        return logits.float().log_softmax(-1)[:, [label[0] for label in labels]]
    cache.batch_repeat_interleave(len(labels))
    padded = [[*query, *label, *[label[-1]] * (longest - len(label))] for label in labels]
    ids = torch.tensor(padded * forks, device=model.device)  # [F * L, Q + longest]
    logits = model(ids[:, :-1], past_key_values=cache, use_cache=True).logits[:, len(query) - 1 :]
    each = logits.float().log_softmax(-1).gather(-1, ids[:, len(query) :, None]).squeeze(-1)
    real = torch.tensor([[i < len(label) for i in range(longest)] for label in labels] * forks)
    return each.where(real.to(each.device), 0.0).sum(-1).view(forks, len(labels))
