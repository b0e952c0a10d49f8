"""Retrieval with several keys: one key's value has to be found among those of all the others."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import GeneratedConfig, register
from cachemedicpp.tasks.choice import VALUES, ChoiceTask, Question

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

_PLACES = (
    "harbour", "mill", "chapel", "station", "library", "bakery", "market", "school", "museum", "tower",
)  # fmt: skip
_LATEST = 0.85  # share of the filler after which no key stands


class MultikeyConfig(GeneratedConfig):
    """Several keys with a value each among filler; one is asked for, and all the values are the choices."""

    keys: int = Field(6, ge=2, le=10)


@register(
    "multikey",
    "multi-key accuracy",
    "Share of prompts in which the right one of several values is found.",
    settings=MultikeyConfig,
    order=5,
)
class MultikeyTask(ChoiceTask):
    """`The code word of the mill is river.` for each key; then `The code word of the mill is`."""

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> MultikeyTask:
        keys = config.data.multikey.keys

        def ask(rng: random.Random) -> Question:
            places, values = rng.sample(_PLACES, keys), rng.sample(VALUES, keys)
            lines = [f"The code word of the {p} is {v}." for p, v in zip(places, values, strict=True)]
            right = rng.randrange(keys)
            shares = sorted(rng.uniform(0, _LATEST) for _ in lines)
            asked = f" The code word of the {places[right]} is"
            spread = list(zip(shares, lines, strict=True))
            return Question(spread, asked, [f" {v}" for v in values], right, [lines[right]])

        return cls.asking(config, model, tokenizer, keys, ask)
