"""The needle check by likelihood: the value has to be more likely than others of its form and length.

How a model words an answer does not decide here, so damage can only hurt.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import Example, check_length, register
from cachemedicpp.tasks.choice import ChoiceTask, tokens_of
from cachemedicpp.tasks.haystack import LongContextConfig, generate, needle_values
from cachemedicpp.tasks.needle import DRAWS, STEP
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
class NeedleValueTask(ChoiceTask):
    """The needle's prompts; the right value among `candidates` with as many tokens."""

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> NeedleValueTask:
        wanted = config.data.needle_value
        longest = max(wanted.lengths or [wanted.context_len])
        check_length(cls.name, longest + 16, f"data.needle_value: a context of {longest} tokens", model)

        def draw(seed: int, index: int, number: int) -> Example:
            made = generate(wanted, tokenizer, seed, index, STEP * number)
            rng = random.Random(f"needle candidates:{seed}:{index}")
            right, others = _alike(tokenizer, made.answer, wanted)
            choices = [right, *rng.sample(others, wanted.candidates - 1)]
            rng.shuffle(choices)
            return made.example(f"needle_value:{seed}:{index}", (choices.index(right), choices))

        settings = {
            "depths": wanted.depths or [wanted.position_frac],
            "context_lens": wanted.lengths or [wanted.context_len],
            "choices": wanted.candidates,
        }
        axes = config.corruption.axes.model_copy(update={"time_mode": "old_only"})
        return cls.generated(config, axes, draw, settings, DRAWS)


def _alike(
    tokenizer: Any, answer: str, wanted: NeedleValueConfig
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The tokens of the answer, and those of every other value of the same form and number of tokens."""
    right = tokens_of(tokenizer, f" {answer}")
    values = (value for value in needle_values(wanted.needle_value) if value != answer)
    others = [ids for value in values if len(ids := tokens_of(tokenizer, f" {value}")) == len(right)]
    if len(others) < wanted.candidates - 1:
        raise UserError(
            f"data.needle_value.candidates = {wanted.candidates}: only {len(others)} other values of "
            f"the form of {wanted.needle_value!r} have {len(right)} tokens; ask for fewer"
        )
    return right, others
