"""SST-2 as a prompt: the label string with the larger log-probability, summed over its tokens, wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cachemedicpp.tasks.base import Example, Score, Task, check_length, register, short
from cachemedicpp.tasks.choice import label_logprobs, tokens_of
from cachemedicpp.tasks.data import load_sentences, stratified
from homeostat.core.config import ConfigModel

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig

PROMPT = "Review: {x}\nSentiment:"
LABELS = (" negative", " positive")


class Sst2Config(ConfigModel):
    """Sentences as prompts `Review: {x}\\nSentiment:`; the label string with the larger log-prob wins."""

    path: str | None = Field(None, description="a local .tsv (label, text) or .jsonl (text, label) file")
    num_examples: int = Field(1000, ge=1)
    n_recent: int | None = Field(
        4, ge=0, description="N_recent for these short prompts; null: the corruption's own N_recent"
    )


@register(
    "sst2",
    "SST-2 accuracy",
    "Share of short film reviews whose sentiment is named correctly.",
    settings=Sst2Config,
    order=2,
)
@dataclass(frozen=True)
class Sst2Task(Task):
    labels: tuple[tuple[int, ...], ...]  # tokens of the negative and of the positive label

    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> Sst2Task:
        wanted = config.data.sst2
        labels = tuple(tokens_of(tokenizer, label) for label in LABELS)
        data = load_sentences(config.data)
        sentences = stratified(list(data.items), wanted.num_examples, lambda sentence: sentence.label)
        short("sst2", len(sentences), wanted.num_examples, "data.sst2.num_examples")
        examples = []
        for index, sentence in enumerate(sentences):
            ids = tuple(tokenizer(PROMPT.replace("{x}", sentence.text))["input_ids"])
            examples.append(Example(f"sst2:{index}", ids[:-1], ids[-1:], sentence.label))
        longest = max(len(e.stored) for e in examples) + 1 + max(map(len, labels))
        check_length("sst2", longest, "the longest review", model)
        axes = config.corruption.axes
        if wanted.n_recent is not None:
            axes = axes.model_copy(update={"N_recent": wanted.n_recent})
        settings = {
            "source": data.source.as_record(),
            "prompt": PROMPT,
            "labels": list(LABELS),
            "asked": wanted.num_examples,
            "share_positive": sum(s.label for s in sentences) / len(sentences),
        }
        return cls.of(axes, examples, settings, labels=labels)

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        logprob = label_logprobs(model, example.query, self.labels, cache, forks)  # [F, 2]
        found = []
        for negative, positive in logprob.tolist():
            right = int(positive > negative) == example.target
            found.append(Score(float(right), detail={"margin": positive - negative}))
        return found
