"""The clean keys and values of another prompt, for corruptions that put foreign content in the cache.

Evaluation has one fixed donor prompt. Training draws another text for each sequence, from the text it trains
on, so that no repair ever meets the evaluation's donor before the evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.state import KV, KVState
from homeostat.core.errors import UserError


class Donor:
    """A fixed prompt that is run when it is first needed. Its tokens repeat until it is long enough.

    Position `t` of the donor goes to position `t` of the cache, so rotary phases are those of a real cache.
    """

    def __init__(self, model: Any, tokenizer: Any, prompt: str) -> None:
        self._model = model
        self._ids: list[int] = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        if not self._ids:
            raise UserError(
                f"corruption.params.donor_prompt = {prompt!r}: the tokenizer makes no token of it"
            )
        self._kept: tuple[int, KVState] | None = None  # the donor that was run last

    def kv(self, layer: int, length: int, which: int = 0) -> KV:
        """Keys and values `[H_kv, ≥ length, d]` of one layer; `which` chooses among several donors.

        In a sliding window the donor is exactly as long as the cache, so that position meets position.
        """
        which = self.number(which)
        if self._kept is None or not self._fits(self._kept, layer, length, which):
            self._kept = which, prefill(self._model, self.tokens(which, length))
        K, V = self._kept[1][layer]
        return KV(K[0], V[0])

    @staticmethod
    def _fits(kept: tuple[int, KVState], layer: int, length: int, which: int) -> bool:
        number, state = kept
        if number != which or state.length < length:
            return False
        return state.length == length or state.start(layer) == 0

    def number(self, which: int) -> int:
        """The donor that `which` stands for: here there is one."""
        return 0

    def tokens(self, which: int, length: int) -> list[int]:
        return (self._ids * (length // len(self._ids) + 1))[:length]


class TextDonor(Donor):
    """Donors cut out of a long text: every `which` is another place in it."""

    def __init__(self, model: Any, ids: Sequence[int]) -> None:
        self._model, self._ids, self._kept = model, list(ids), None

    def number(self, which: int) -> int:
        return which % len(self._ids)

    def tokens(self, which: int, length: int) -> list[int]:
        around = self._ids[which:] + self._ids[:which]
        return (around * (length // len(around) + 1))[:length]
