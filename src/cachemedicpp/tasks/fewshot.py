"""Few-shot classification with labels that only the prompt explains."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from cachemedicpp.tasks.base import Example, check_length, check_stored
from cachemedicpp.tasks.choice import VALUES, ChoiceTask

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import EvaluationConfig

_KINDS = (
    "cat dog horse cow sheep lion tiger bear wolf fox rabbit mouse snake eagle shark whale",
    "apple pear banana orange lemon grape peach cherry mango plum melon fig lime kiwi berry apricot",
    "hammer saw drill wrench knife spoon fork shovel axe brush ladder rope nail screw pliers chisel",
    "gold silver iron copper tin lead zinc steel nickel bronze brass platinum mercury titanium chrome cobalt",
)


class FewshotTask:
    """`cow: river`, `pear: glass`, … as many as fit; then another word, whose label is asked for."""

    @staticmethod
    def build(config: EvaluationConfig, model: Any, tokenizer: Any) -> ChoiceTask:
        wanted = config.data.fewshot
        check_length(
            "fewshot", wanted.context_len + 8, f"data.fewshot.context_len = {wanted.context_len}", model
        )
        seed = config.seed if wanted.seed is None else wanted.seed
        examples = []
        for index in range(wanted.num_examples):
            rng = random.Random(f"fewshot:{seed}:{index}")
            text, labels, right = _prompt(rng, wanted.kinds, wanted.context_len, tokenizer)
            ids = tuple(tokenizer(text)["input_ids"])
            choices = [tuple(tokenizer(f" {x}", add_special_tokens=False)["input_ids"]) for x in labels]
            examples.append(Example(f"fewshot:{seed}:{index}", ids[:-1], ids[-1:], (right, choices)))
        axes = config.corruption.axes
        check_stored("fewshot", examples, axes)
        settings = {
            "source": {"dataset": "fewshot", "origin": "generator", "seed": seed},
            "context_len": wanted.context_len,
            "choices": wanted.kinds,
            "n": len(examples),
            "time_mode": axes.time_mode,
            "N_recent": axes.N_recent,
        }
        return ChoiceTask("fewshot", axes, examples, settings)


def _prompt(rng: random.Random, kinds: int, length: int, tokenizer: Any) -> tuple[str, list[str], int]:
    """As many labelled words as fit into `length` tokens, kinds in random order, and one without a label."""
    groups = [rng.sample(kind.split(), 16) for kind in rng.sample(_KINDS, kinds)]
    known = {word for kind in _KINDS for word in kind.split()}
    labels = rng.sample([value for value in VALUES if value not in known], kinds)
    right = rng.randrange(kinds)
    asked = groups[right].pop()
    lines: list[str] = []
    while True:
        kind = rng.randrange(kinds)
        more = [*lines, f"{rng.choice(groups[kind])}: {labels[kind]}"]
        text = "\n".join([*more, f"{asked}:"])
        if lines and len(tokenizer(text)["input_ids"]) > length:
            return "\n".join([*lines, f"{asked}:"]), labels, right
        lines = more
