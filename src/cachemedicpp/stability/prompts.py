"""The prompts of the stability stage: text that no task of the run uses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cachemedicpp.eval.stage import Setup
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.data import Corpus, Source, load_text, read_paragraphs, spread
from cachemedicpp.tasks.wikitext2 import strided_windows
from homeostat.core.errors import UserError
from homeostat.core.progress import say
from homeostat.core.records import Record
from homeostat.core.resources import find

_SHARED = 12  # tokens in a row that a prompt may not have in common with an example of a task


def prompts(setup: Setup) -> tuple[list[tuple[int, ...]], Record]:
    """Evenly spread windows of text that no task uses, and where the text came from."""
    config, corpus = setup.config.stability, _text(setup.config)
    start = tuple(setup.tokenizer("")["input_ids"])  # a BOS token, for tokenizers that begin with one
    ids = setup.tokenizer(corpus.text, add_special_tokens=False, verbose=False)["input_ids"]
    windows = [w for _, w in strided_windows(ids, config.prompt_len - len(start), None)]
    examples = [example for task in setup.tasks for example in task.examples]
    used = {run for e in examples for part in (e.stored + e.query, e.target) for run in _runs(part)}
    free = [(*start, *window) for window in windows if used.isdisjoint(_runs(window))]
    if not free:
        raise UserError(
            f"stability: none of the {len(windows)} windows of {config.prompt_len} tokens in "
            f"{corpus.source.where} is free of text that a task uses; set stability.path to another text, "
            "or evaluate fewer sequences"
        )
    if len(free) < config.num_prompts:
        say(f"stability: {len(free)} prompts, not {config.num_prompts}: the tasks use the rest of the text")
    source = {**corpus.source.as_record(), "windows": len(windows), "windows_no_task_uses": len(free)}
    return spread(free, config.num_prompts), source


def _text(config: MedicConfig) -> Corpus:
    """The text of `stability.path`; else another split of the hub's; else the evaluation's own."""
    path, wanted = config.stability.path, config.data.wikitext2
    if path is not None:
        paragraphs = read_paragraphs(find(path))
        digest = hashlib.sha256(repr(paragraphs).encode("utf-8")).hexdigest()
        return Corpus(tuple(paragraphs), Source("stability prompts", "path", path, digest))
    other = "test" if wanted.split == "validation" else "validation"
    split = {"wikitext2": wanted.model_copy(update={"split": other})}
    return load_text(config.data.model_copy(update=split))


def _runs(tokens: Any) -> Iterator[tuple[int, ...]]:
    """Every `_SHARED` tokens in a row; none for what is no row of tokens."""
    if isinstance(tokens, tuple):
        yield from (tokens[i : i + _SHARED] for i in range(len(tokens) - _SHARED + 1))
