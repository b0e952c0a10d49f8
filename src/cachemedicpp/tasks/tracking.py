"""Variable tracking: a thing changes hands, and the last owner's thing is asked for."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import GeneratedConfig, register
from cachemedicpp.tasks.choice import VALUES, ChoiceTask, Question

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

_NAMES = (
    "Tom", "Anna", "Peter", "Mary", "John", "Lucy", "David", "Emma", "Jack", "Sarah", "Paul", "Alice", "Mark",
    "Helen", "Simon", "Laura", "James", "Julia", "Robert", "Susan", "Henry", "Clara", "George", "Nora",
    "Oscar", "Maria", "Frank", "Lisa", "Victor", "Rosa",
)  # fmt: skip
_LATEST = 0.85  # share of the filler after which nothing changes hands


class TrackingConfig(GeneratedConfig):
    """Things change hands `hops` times; who has what is asked for, and the things are the choices."""

    chains: int = Field(3, ge=2, le=6)
    hops: int = Field(1, ge=0, le=4)


@register(
    "tracking",
    "tracking accuracy",
    "Share of prompts in which a thing that changes hands is followed.",
    settings=TrackingConfig,
    order=6,
)
class TrackingTask(ChoiceTask):
    """`Tom has the river box.`, `Tom gives that box to Anna.`; then `Now Anna has the`.

    Which box it is stands in the first statement only, so that the hand-overs have to be followed.
    """

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> TrackingTask:
        wanted = config.data.tracking

        def ask(rng: random.Random) -> Question:
            names = iter(rng.sample(_NAMES, wanted.chains * (wanted.hops + 1)))
            things = rng.sample(VALUES, wanted.chains)
            placed, last = [], []
            for thing in things:
                owners = [next(names) for _ in range(wanted.hops + 1)]
                lines = [f"{owners[0]} has the {thing} box."]
                handed = itertools.pairwise(owners)
                lines += [f"{giver} gives that box to {taker}." for giver, taker in handed]
                shares = sorted(rng.uniform(0, _LATEST) for _ in lines)
                placed += list(zip(shares, lines, strict=True))
                last.append((owners[-1], lines))
            right = rng.randrange(wanted.chains)
            owner, needed = last[right]
            return Question(placed, f" Now {owner} has the", [f" {t}" for t in things], right, needed)

        return cls.asking(config, model, tokenizer, wanted.chains, ask)
