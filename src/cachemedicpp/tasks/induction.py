"""Copying: words that follow each other once will follow each other again."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import Example, GeneratedConfig, Score, Task, check_length, register, rows
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

_WORD = re.compile(" [a-z]{4,}")
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
class InductionTask(Task):
    """A list of distinct words, then the same list from a random place on. Right is every copied token."""

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> InductionTask:
        wanted, axes = config.data.induction, config.corruption.axes
        length, scored = wanted.context_len, wanted.score_len
        setting = f"data.induction.context_len = {length}"
        check_length(cls.name, length, setting, model)
        words, start = _words(tokenizer), tokenizer("")["input_ids"]
        count = length - scored - _CUE - len(start)
        if count > len(words) or count <= scored + _CUE:
            raise UserError(
                f"{setting}: {count} distinct words would be listed, of the vocabulary's {len(words)}; at "
                f"least {scored + _CUE + 1} are needed"
            )
        places = count - scored - max(_CUE, axes.recent)  # what is copied stands where damage can reach
        if places < 1:
            raise UserError(
                f"{setting}: no {scored} words of the list stand before the last N_recent = {axes.N_recent} "
                "stored tokens; use a longer context"
            )

        def draw(seed: int, index: int, number: int) -> Example:
            key = f"induction:{seed}:{index}"
            rng = random.Random(key)
            listed = rng.sample(words, count)
            at = rng.randrange(places)
            ids = (*start, *listed, *listed[at : at + _CUE + scored])
            stored, focus = len(ids) - scored - 1, len(start) + at + _CUE
            return Example(key, ids[:stored], ids[stored:-1], ids[-scored:], focus, scored)

        settings = {"context_len": length, "score_len": scored}
        return cls.generated(config, axes, draw, settings, draws=1)

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        logits = model(rows(example.query, forks, model), past_key_values=cache, use_cache=True).logits
        right = logits.argmax(-1) == rows(example.target, forks, model)  # [F, S]
        return [Score(float(total), len(example.target)) for total in right.sum(-1)]


@cache
def _words(tokenizer: Any) -> list[int]:
    """Tokens that are a lower-case word of their own, in the order of the vocabulary."""
    texts = (tokenizer.decode([token]) for token in range(len(tokenizer)))
    return [token for token, text in enumerate(texts) if _WORD.fullmatch(text)]
