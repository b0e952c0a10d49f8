"""Watching a batch while it is generated: samples are handed out as they end, and it can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria


class Watch(StoppingCriteria):
    """A stopping criterion that also looks: at which samples have ended, and at how far the others are.

    `ended(row, tokens)` gets each sample once, when its last token is there; `far(share)` how many samples'
    worth of work the unended ones have behind them. Once `stop` is set, generation ends with the next token.
    """

    def __init__(
        self,
        start: int,
        limit: int,
        ends: frozenset[int],
        ended: Callable[[int, Tensor], None],
        far: Callable[[float], None] | None = None,
        stop: threading.Event | None = None,
        also: StoppingCriteria | None = None,
    ) -> None:
        self._start, self._limit, self._ends = start, limit, torch.tensor(sorted(ends), dtype=torch.long)
        self._ended, self._far, self._stop, self._also = ended, far, stop, also
        self._seen: set[int] = set()

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        new = input_ids[:, self._start :]  # [B, made]
        done = torch.zeros(len(new), dtype=torch.bool, device=new.device)
        if self._also is not None:
            done |= self._also(input_ids, scores, **kwargs)
        last = done | torch.isin(new[:, -1], self._ends.to(new.device))
        for row in last.nonzero().flatten().tolist():
            self._end(row, new[row])
        if self._far is not None:
            self._far((len(new) - len(self._seen)) * new.shape[1] / self._limit)
        if self._stop is not None and self._stop.is_set():
            done[:] = True
        return done

    def finish(self, new: Tensor) -> None:
        """Hand out what had not ended when its tokens were used up; nothing if it was stopped."""
        if self._stop is None or not self._stop.is_set():
            for row, tokens in enumerate(new):
                self._end(row, tokens)

    def _end(self, row: int, tokens: Tensor) -> None:
        if row not in self._seen:
            self._seen.add(row)
            self._ended(row, tokens)


def ends_of(model: Any) -> frozenset[int]:
    """The tokens that end a text."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return frozenset() if ends is None else frozenset(ends if isinstance(ends, list) else [ends])
