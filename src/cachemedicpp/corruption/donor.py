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
    """Donors cut out of a text of tokens, which repeat until they are long enough: run when first needed.

    Position `t` of the donor goes to position `t` of the cache, so rotary phases are those of a real cache.
    """

    _places = 1

    def __init__(self, model: Any, ids: Sequence[int], places: int = 1) -> None:
        """`places`: how many donors the text gives, each beginning at another of its first tokens."""
        self._model, self._ids, self._places = model, list(ids), places
        self._kept: tuple[int, KVState] | None = None  # the donor that was run last

    @classmethod
    def of_prompt(cls, model: Any, tokenizer: Any, prompt: str) -> Donor:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        if not ids:
            raise UserError(
                f"corruption.params.donor_prompt = {prompt!r}: the tokenizer makes no token of it"
            )
        return cls(model, ids)

    def kv(self, layer: int, length: int, which: int = 0) -> KV:
        """Keys and values `[H_kv, ≥ length, d]` of one layer; `which` chooses among several donors.

        In a sliding window the donor is exactly as long as the cache, so that position meets position.
        """
        number = self.number(which)
        if self._kept is None or not self._fits(self._kept, layer, length, number):
            around = self._ids[number:] + self._ids[:number]
            ids = (around * (length // len(around) + 1))[:length]
            self._kept = number, prefill(self._model, ids)
        K, V = self._kept[1][layer]
        return KV(K[0], V[0])

    def number(self, which: int) -> int:
        """The donor that `which` stands for."""
        return which % self._places

    @staticmethod
    def _fits(kept: tuple[int, KVState], layer: int, length: int, wanted: int) -> bool:
        number, state = kept
        if number != wanted or state.length < length:
            return False
        return state.length == length or state.start(layer) == 0
