"""The needle check by likelihood: the value has to be more likely than others of its form and length.

How a model words an answer does not decide here, so damage can only hurt.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import Example, check_length, check_stored, reaching, register
from cachemedicpp.tasks.choice import ChoiceTask
from cachemedicpp.tasks.haystack import LongContextConfig, generate, needle_values
from cachemedicpp.tasks.needle import STEP
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig


class NeedleValueConfig(LongContextConfig):
    """The needle's settings, and how many values there are to choose from."""

    candidates: int = Field(6, ge=2)


@register(
    "needle_value",
    "needle value accuracy",
    "Share of prompts in which the needle's value is likelier than others of its form and length.",
    settings=NeedleValueConfig,
    order=7,
)
class NeedleValueTask:
    """The needle's prompts; the right value among `candidates` with as many tokens."""

    @staticmethod
    def build(config: MedicConfig, model: Any, tokenizer: Any) -> ChoiceTask:
        wanted = config.data.needle_value
        longest = max(wanted.lengths or [wanted.context_len])
        check_length("needle_value", longest + 16, f"data.needle_value: a context of {longest} tokens", model)
        seed = config.seed if wanted.seed is None else wanted.seed
        axes = config.corruption.axes.model_copy(update={"time_mode": "old_only"})

        def drawn(index: int, earlier: int) -> Example:
            made = generate(wanted, tokenizer, seed, index, STEP * earlier)
            rng = random.Random(f"needle candidates:{seed}:{index}")
            right, others = _alike(tokenizer, made.answer, wanted)
            choices = [right, *rng.sample(others, wanted.candidates - 1)]
            rng.shuffle(choices)
            target = (choices.index(right), choices)
            key, ids = f"needle_value:{seed}:{index}", made.ids
            return Example(key, ids[:-1], ids[-1:], target, made.focus, made.span)

        examples = [
            reaching("needle_value", axes, lambda number, i=index: drawn(i, number), int(1 / STEP) + 1)  # type: ignore[misc]
            for index in range(wanted.num_examples)
        ]
        check_stored("needle_value", examples, axes)
        settings = {
            "source": {"dataset": "needle_value", "origin": "generator", "seed": seed},
            "depths": wanted.depths or [wanted.position_frac],
            "context_lens": wanted.lengths or [wanted.context_len],
            "choices": wanted.candidates,
            "n": len(examples),
            "time_mode": axes.time_mode,
            "N_recent": axes.N_recent,
        }
        return ChoiceTask("needle_value", axes, examples, settings)


def _alike(
    tokenizer: Any, answer: str, wanted: NeedleValueConfig
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The tokens of the answer, and those of every other value of the same form and number of tokens."""
    right = tuple(tokenizer(f" {answer}", add_special_tokens=False)["input_ids"])
    tokens = [
        tuple(tokenizer(f" {value}", add_special_tokens=False)["input_ids"])
        for value in needle_values(wanted.needle_value)
        if value != answer
    ]
    others = [ids for ids in tokens if len(ids) == len(right)]
    if len(others) < wanted.candidates - 1:
        raise UserError(
            f"data.needle_value.candidates = {wanted.candidates}: only {len(others)} other values of "
            f"the form of {wanted.needle_value!r} have {len(right)} tokens; ask for fewer"
        )
    return right, others
