"""Copying: words that follow each other once will follow each other again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.tasks.base import Example, Score, check_length, check_stored, register, rows
from cachemedicpp.tasks.choice import GeneratedConfig
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

_CUE = 8  # words of the second list that are given


class InductionConfig(GeneratedConfig):
    """A list of distinct words, and its beginning again: the continuation stands in the first list."""

    score_len: int = Field(8, ge=1, description="tokens scored")


@register(
    "induction",
    "copying accuracy",
    "Share of tokens of a repeated list that are continued correctly.",
    settings=InductionConfig,
    order=4,
)
@dataclass(frozen=True)
class InductionTask:
    """A list of distinct words, then the same list from a random place on. Right is every copied token."""

    axes: AxesConfig
    examples: Sequence[Example]
    settings: dict[str, Any]
    name: str = "induction"
    metric: str = "accuracy"

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> InductionTask:
        wanted = config.data.induction
        check_length(
            "induction", wanted.context_len, f"data.induction.context_len = {wanted.context_len}", model
        )
        words = _words(tokenizer)
        count = wanted.context_len - wanted.score_len - _CUE - len(tokenizer("")["input_ids"])
        if count > len(words) or count <= wanted.score_len + _CUE:
            raise UserError(
                f"data.induction.context_len = {wanted.context_len}: {count} distinct words would be "
                f"listed, of the vocabulary's {len(words)}; at least {wanted.score_len + _CUE + 1} are needed"
            )
        seed = config.seed if wanted.seed is None else wanted.seed
        axes = config.corruption.axes
        recent = axes.N_recent if axes.time_mode == "old_only" else 0
        places = count - wanted.score_len - max(_CUE, recent)  # what is copied stands where damage can reach
        if places < 1:
            raise UserError(
                f"data.induction.context_len = {wanted.context_len}: no {wanted.score_len} words of the list "
                f"stand before the last N_recent = {axes.N_recent} stored tokens; use a longer context"
            )
        examples = []
        for index in range(wanted.num_examples):
            rng = random.Random(f"induction:{seed}:{index}")
            listed = rng.sample(words, count)
            at = rng.randrange(places)
            again = listed[at : at + _CUE + wanted.score_len]
            ids = (*tokenizer("")["input_ids"], *listed, *again)
            stored = len(ids) - wanted.score_len - 1
            key = f"induction:{seed}:{index}"
            focus = len(ids) - len(again) - count + at + _CUE
            target = ids[-wanted.score_len :]
            examples.append(Example(key, ids[:stored], ids[stored:-1], target, focus, wanted.score_len))
        check_stored("induction", examples, axes)
        settings = {
            "source": {"dataset": "induction", "origin": "generator", "seed": seed},
            "context_len": wanted.context_len,
            "score_len": wanted.score_len,
            "n": len(examples),
            "time_mode": axes.time_mode,
            "N_recent": axes.N_recent,
        }
        return cls(axes, examples, settings)

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        logits = model(rows(example.query, forks, model), past_key_values=cache, use_cache=True).logits
        right = logits.argmax(-1) == rows(example.target, forks, model)  # [F, S]
        return [Score(float(total), len(example.target)) for total in right.sum(-1)]


@cache
def _words(tokenizer: Any) -> list[int]:
    """Tokens that are a lower-case word of their own, in the order of the vocabulary."""
    found = []
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token])
        if (
            text.startswith(" ")
            and text[1:].isascii()
            and text[1:].islower()
            and text[1:].isalpha()
            and len(text) > 4
        ):
            found.append(token)
    return found
