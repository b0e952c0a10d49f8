"""Batches of token windows, drawn by step number, so that no step depends on earlier ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.corruption.streams import Stream
from cachemedicpp.tasks.data import Corpus, spread
from homeostat.core.errors import UserError
from homeostat.core.progress import say


@dataclass(frozen=True)
class Windows:
    """A text as one row of token ids, cut into windows of `length` tokens."""

    ids: Tensor  # [N]
    length: int
    start: tuple[int, ...] = ()  # what the tokenizer begins every text with, and so every window

    @classmethod
    def of(cls, corpus: Corpus, tokenizer: Any, length: int) -> Windows:
        ids = tokenizer(corpus.text, add_special_tokens=False, verbose=False)["input_ids"]
        if len(ids) <= length:
            raise UserError(
                f"the text {corpus.source.where} has {len(ids)} tokens, fewer than one window of {length}: "
                "use more text, or a smaller train.prefix_len and train.continuation_len"
            )
        return cls(torch.tensor(ids), length, tuple(tokenizer("")["input_ids"]))

    def drawn(self, count: int, stream: Stream) -> Tensor:
        """`count` windows at random places: `[count, length]`."""
        places = (stream.uniform(count).double() * (len(self.ids) - self.length)).long()
        return torch.stack([self._at(i) for i in places.tolist()])

    def spread(self, count: int) -> Tensor:
        """At most `count` windows that do not overlap, evenly spread: always the same ones.

        Where the text has fewer, a warning says so.
        """
        available = len(self.ids) // self.length
        if available < count:
            found = f"{available} windows of {self.length} tokens"
            say(f"warning: the text has {found}, not the {count} asked for")
        return torch.stack([self._at(place * self.length) for place in spread(range(available), count)])

    def split(self, count: int) -> tuple[Windows, Tensor]:
        """The text without its end, and `count` windows of that end, `[count, length]`."""
        size = count * self.length
        if len(self.ids) <= size + self.length:
            raise UserError(
                f"the text has {len(self.ids)} tokens: too few to keep {count} windows of {self.length} "
                "aside; use more text, or a smaller train.validation_sequences"
            )
        kept = replace(self, ids=self.ids[-size:])
        return replace(self, ids=self.ids[:-size]), kept.spread(count)

    def _at(self, place: int) -> Tensor:
        start = self.ids.new_tensor(self.start)
        return torch.cat((start, self.ids[place : place + self.length - len(start)]))
