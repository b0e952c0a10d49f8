"""Few-shot classification with labels that only the prompt explains."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import Example, GeneratedConfig, check_length, register
from cachemedicpp.tasks.choice import VALUES, ChoiceTask, tokens_of
from cachemedicpp.tasks.haystack import sentence

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

_KINDS = (
    "cat dog horse cow sheep lion tiger bear wolf fox rabbit mouse snake eagle shark whale",
    "apple pear banana orange lemon grape peach cherry mango plum melon fig lime kiwi berry apricot",
    "hammer saw drill wrench knife spoon fork shovel axe brush ladder rope nail screw pliers chisel",
    "gold silver iron copper tin lead zinc steel nickel bronze brass platinum mercury titanium chrome cobalt",
)


class FewshotConfig(GeneratedConfig):
    """Words labelled by their kind, with labels that mean nothing elsewhere; the last has none yet."""

    context_len: int = Field(128, ge=48, description="tokens of a prompt")
    kinds: int = Field(2, ge=2, le=4)


@register(
    "fewshot",
    "few-shot accuracy",
    "Share of words whose label is learned from the prompt.",
    settings=FewshotConfig,
    order=7,
)
class FewshotTask(ChoiceTask):
    """`cow: river`, `pear: glass`, … as many as fit; then neutral sentences, so that no label is recent; then
    another word, whose label is asked for."""

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> FewshotTask:
        wanted, axes = config.data.fewshot, config.corruption.axes
        length = wanted.context_len
        check_length(cls.name, length + 8, f"data.fewshot.context_len = {length}", model)

        def draw(seed: int, index: int, number: int) -> Example:
            key = f"fewshot:{seed}:{index}"
            rng = random.Random(key)
            demos, text, labels, right = _prompt(rng, wanted.kinds, length, axes.recent, tokenizer)
            ids = tuple(tokenizer(text)["input_ids"])
            choices = [tokens_of(tokenizer, f" {label}") for label in labels]
            return Example(key, ids[:-1], ids[-1:], (right, choices), 0, len(tokenizer(demos)["input_ids"]))

        settings = {"context_len": length, "choices": wanted.kinds}
        return cls.generated(config, axes, draw, settings, draws=1)


def _prompt(
    rng: random.Random, kinds: int, length: int, recent: int, tokenizer: Any
) -> tuple[str, str, list[str], int]:
    """As many labelled words as fit into `length` tokens, kinds in random order, and one without a label.

    More than `recent` tokens of neutral text stand between them. Returns the labelled words, the whole
    prompt, the labels and the number of the right one.
    """
    groups = [rng.sample(kind.split(), 16) for kind in rng.sample(_KINDS, kinds)]
    known = {word for kind in _KINDS for word in kind.split()}
    labels = rng.sample([value for value in VALUES if value not in known], kinds)
    right = rng.randrange(kinds)
    asked = groups[right].pop()
    between = ""
    while recent and len(tokenizer(between)["input_ids"]) <= recent:
        between = f"{between} {sentence(rng)}".strip()
    last = f"\n\n{between}\n\n{asked}:" if between else f"\n{asked}:"
    demos = ""
    while True:
        kind = rng.randrange(kinds)
        more = f"{demos}\n{rng.choice(groups[kind])}: {labels[kind]}".strip()
        if demos and len(tokenizer(more + last)["input_ids"]) > length:
            return demos, demos + last, labels, right
        demos = more
