"""Multiple choice: the continuation with the largest log-probability per token wins."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from cachemedicpp.tasks.base import Example, Score, Task, check_length
from cachemedicpp.tasks.haystack import fill, token_at

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

# Names, places and things for generated prompts. Values are single tokens in most vocabularies.
VALUES = (
    "red", "blue", "green", "black", "white", "gold", "silver", "pink", "brown", "orange", "stone", "river",
    "garden", "window", "table", "bridge", "castle", "forest", "island", "summer", "winter", "morning",
    "bread", "water", "fire", "music", "paper", "glass", "horse", "tiger", "eagle", "lion",
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Statements and their places (shares of the filler), what is asked, the choices, the right one."""

    statements: Sequence[tuple[float, str]]
    asked: str
    choices: Sequence[str]
    right: int
    needed: Sequence[str]  # the statements that lead to the answer, as they follow each other


class ChoiceTask(Task):
    """Prompts with fixed continuations. `target` is the right one's number and the tokens of all."""

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        right, choices = example.target
        found = label_logprobs(model, example.query, choices, cache, forks)  # [F, choices]
        each = (found / found.new_tensor([len(choice) for choice in choices])).tolist()
        return [Score(float(row.index(max(row)) == right), detail={"logprobs": row}) for row in each]

    @classmethod
    def asking(
        cls,
        config: MedicConfig,
        model: Any,
        tokenizer: Any,
        choices: int,
        ask: Callable[[random.Random], Question],
    ) -> Self:
        """Examples of `ask`, their statements among as much filler as fills the context."""
        name, length = cls.name, getattr(config.data, cls.name).context_len
        setting = f"data.{name}.context_len"
        check_length(name, length + 8, f"{setting} = {length}", model)

        def draw(seed: int, index: int, number: int) -> Example:
            key = f"{name}:{seed}:{index}"
            rng = random.Random(f"{key}:{number}" if number else key)
            question = ask(rng)

            def render(context: str) -> tuple[str, list[int]]:
                text = f"{context}{question.asked}"
                return text, list(tokenizer(text)["input_ids"])

            text, ids = fill(rng, question.statements, render, length, setting)
            begins = [token_at(tokenizer, text, ids, statement) for statement in question.needed]
            span = begins[-1] + len(tokens_of(tokenizer, question.needed[-1])) - begins[0]
            target = (question.right, [tokens_of(tokenizer, choice) for choice in question.choices])
            return Example(key, tuple(ids[:-1]), tuple(ids[-1:]), target, begins[0], span)

        settings = {"context_len": length, "choices": choices}
        return cls.generated(config, config.corruption.axes, draw, settings)


def tokens_of(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The tokens of a piece of text inside another."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def label_logprobs(
    model: Any, query: Sequence[int], labels: Sequence[Sequence[int]], cache: Any, forks: int
) -> Tensor:
    """Log-probability of each label after `query`, summed over the label's tokens: `[forks, labels]`.

    Labels of one token need one row per fork. Longer ones get a row each. Shorter labels are padded on the
    right, where causal attention keeps padding out of every score.
    """
    longest = max(len(label) for label in labels)
    if longest == 1:
        ids = torch.tensor([list(query)] * forks, device=model.device)
        logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        first: Tensor = logits.float().log_softmax(-1)
        return first[:, [label[0] for label in labels]]
    cache.batch_repeat_interleave(len(labels))
    padded = [[*query, *label, *[label[-1]] * (longest - len(label))] for label in labels]
    ids = torch.tensor(padded * forks, device=model.device)  # [F * L, Q + longest]
    logits = model(ids[:, :-1], past_key_values=cache, use_cache=True).logits[:, len(query) - 1 :]
    each = logits.float().log_softmax(-1).gather(-1, ids[:, len(query) :, None]).squeeze(-1)
    real = torch.tensor([[i < len(label) for i in range(longest)] for label in labels] * forks)
    total: Tensor = each.where(real.to(each.device), 0.0).sum(-1)
    return total.view(forks, len(labels))
