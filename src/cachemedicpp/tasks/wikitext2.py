"""Wikitext-2 perplexity over strided windows: clean prefix, corrupt, repair, score the continuation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field

from cachemedicpp.tasks.base import Example, Score, Task, check_length, register, rows, short
from cachemedicpp.tasks.data import load_text, spread
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.tasks.config import MedicConfig


class Wikitext2Config(ConfigModel):
    """Strided windows: `prefix_len` clean tokens are stored, corrupted and repaired, the rest is scored."""

    path: str | None = Field(None, description="a local text to evaluate on, where the hub cannot be reached")
    train_path: str | None = Field(None, description="the same for training and calibration text")
    split: Literal["validation", "test"] = "test"
    num_sequences: int = Field(2000, ge=1, description="at most this many windows")
    score_len: int = Field(64, ge=1, description="tokens scored at the end of each window")
    stride: int | None = Field(
        None,
        ge=1,
        description="step between windows; null: end to end, or closer where num_sequences needs it",
    )


@register(
    "wikitext2", "Wikitext-2 perplexity", metric="ppl", settings=Wikitext2Config, term="perplexity", order=1
)
class Wikitext2Task(Task):
    @classmethod
    def build(cls, config: MedicConfig, model: Any, tokenizer: Any) -> Wikitext2Task:
        wanted, length = config.data.wikitext2, config.eval.max_seq_len
        if wanted.score_len >= length - 1:
            raise UserError(
                f"data.wikitext2.score_len = {wanted.score_len}: with eval.max_seq_len = {length} there is "
                "no prefix left to store; score fewer tokens or lengthen the window"
            )
        check_length("wikitext2", length, f"eval.max_seq_len = {length}", model)
        corpus = load_text(config.data)
        ids = tokenizer(corpus.text, add_special_tokens=False, verbose=False)["input_ids"]
        start = tokenizer("")["input_ids"]  # a BOS token, for tokenizers that begin every text with one
        step = wanted.stride or stride_for(
            len(ids), length - len(start), wanted.num_sequences, wanted.score_len
        )
        windows = spread(strided_windows(ids, length - len(start), step), wanted.num_sequences)
        if not windows:
            raise UserError(
                f"the Wikitext corpus has {len(ids)} tokens: not one window of eval.max_seq_len = {length}"
            )
        short("wikitext2", len(windows), wanted.num_sequences, "data.wikitext2.num_sequences")
        stored = length - wanted.score_len - 1  # the last prefix token asks for the first scored one
        examples = []
        for at, window in windows:
            tokens = (*start, *window)
            key = f"wikitext2:{at}"
            examples.append(
                Example(key, tokens[:stored], tokens[stored:-1], target=tokens[length - wanted.score_len :])
            )
        settings = {
            "source": corpus.source.as_record(),
            "max_seq_len": length,
            "score_len": wanted.score_len,
            "stride": step,
            "stored": stored,
            "form": _form(corpus.text),
            "asked": wanted.num_sequences,
        }
        return cls.of(config.corruption.axes, examples, settings)

    def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
        logits = model(rows(example.query, forks, model), past_key_values=cache, use_cache=True).logits
        target = rows(example.target, forks, model)  # [F, S]
        logprob = -torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), target.flatten(), reduction="none"
        ).view(target.shape)
        count = len(example.target)
        return [Score(float(total), count) for total in logprob.double().sum(-1)]


def _form(text: str) -> str:
    """Whether the text is Wikitext's tokenised form, in which perplexity is another than of plain text."""
    unknown, joined = text.count("<unk>"), text.count("@-@") + text.count("@,@") + text.count("@.@")
    return (
        f"tokenised: {unknown} times <unk>, {joined} times @-@, @,@ or @.@" if unknown + joined else "plain"
    )


def strided_windows(ids: Sequence[int], length: int, stride: int | None) -> list[tuple[int, tuple[int, ...]]]:
    """Every full window of `length` tokens, `stride` apart (null: end to end), with its starting place."""
    step = stride or length
    return [(at, tuple(ids[at : at + length])) for at in range(0, len(ids) - length + 1, step)]


def stride_for(tokens: int, length: int, count: int, score_len: int) -> int:
    """The largest step, at most `length`, at which `tokens` tokens give `count` windows.

    Where that needs overlapping windows, their scored parts still do not overlap: a step is never smaller
    than `score_len`, and the count falls short instead.
    """
    if count < 2 or (tokens - length) // length + 1 >= count:
        return length
    return max(score_len, min(length, (tokens - length) // (count - 1)))
