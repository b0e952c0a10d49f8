"""Operator G on disk: its statistics as safetensors, and the card every repair has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.repair.cards import make_card, read_tensors
from cachemedicpp.repair.gaussian.calibrate import calibrate as learn
from cachemedicpp.repair.gaussian.calibrate import longest
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.repair.gaussian.statistics import Statistics
from homeostat.core.records import Record
from homeostat.core.resources import resource

_OTHER_KINDS = "data/offline/mixed_sample.txt"  # code, JSON, tables, base64, Chinese, Russian, chat, emoji


def calibrate(
    model: Any,
    tokenizer: Any,
    texts: str | Iterable[str],
    *,
    windows: int = 128,
    length: int = 256,
    reach: int | None = None,
    about: Record | None = None,
) -> GaussianRepair:
    """Operator G for `model`, learned from ordinary text: `calibrate(model, tokenizer, texts).save("op")`.

    At most `windows` pieces of `length` tokens are used, spread over the text; a model with a sliding window
    gets pieces that fit into it. What tokens tell is learned from half as many pieces of other kinds of text,
    too: code, tables, other scripts. `about` is kept on the card, to say where the text came from.
    """
    words = texts if isinstance(texts, str) else "\n\n".join(texts)
    length = min(length, longest(model))
    chosen = _pieces(tokenizer, words, windows, length)
    mixed = resource(_OTHER_KINDS).read_text(encoding="utf-8")
    other = _pieces(tokenizer, mixed, max(len(chosen) // 2, 2), length)
    told = {"text": about or "given", "windows": len(chosen), "length": length}
    return make(learn(model, chosen, reach, other=other), model, told)


def _pieces(tokenizer: Any, words: str, count: int, length: int) -> Tensor:
    """At most `count` pieces of `length` tokens, spread over a text; each begins as the tokenizer begins."""
    lead = [
        token for token in tokenizer("")["input_ids"] if token == getattr(tokenizer, "bos_token_id", None)
    ]
    ids = torch.tensor(tokenizer(words)["input_ids"][len(lead) :], dtype=torch.long)
    size = length - len(lead)
    whole = ids[: len(ids) // size * size].view(-1, size)
    if len(whole):
        whole = whole[torch.linspace(0, len(whole) - 1, min(count, len(whole))).long()]
    return torch.cat((torch.tensor(lead).long().expand(len(whole), -1), whole), 1)


def make(stats: Statistics, model: Any, settings: Record) -> GaussianRepair:
    """The operator for `model`; `settings` say what it was calibrated on."""
    tensors = stats.tensors()
    told = {
        "reach": stats.reach,
        "tokens": int(stats.count),
        "sinks": 0 if stats.sink is None else int(stats.sink.count),
    }
    card = make_card("G", model, tuple(range(stats.layers)), tensors, settings | told)
    operator = GaussianRepair(stats, card)
    operator.know(model)
    return operator


def save(operator: GaussianRepair, folder: Path) -> None:
    operator.save(folder)


def load(folder: Path, card: Record) -> GaussianRepair:
    return GaussianRepair(Statistics.from_tensors(read_tensors(folder, card)), card)
