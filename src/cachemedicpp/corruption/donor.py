"""The clean keys and values of another prompt, for corruptions that put foreign content in the cache."""

from __future__ import annotations

from typing import Any

import torch

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
        self._state: KVState | None = None

    def kv(self, layer: int, length: int) -> KV:
        """Keys and values `[H_kv, ≥ length, d]` of one layer."""
        if self._state is None or self._state.length < length:
            self._state = self._run(length)
        elif self._state.length > length and self._state.start(layer) > 0:
            self._state = self._run(length)  # in a sliding window, so that position meets position
        K, V = self._state[layer]
        return KV(K[0], V[0])

    def _run(self, length: int) -> KVState:
        tiled = (self._ids * (length // len(self._ids) + 1))[:length]
        ids = torch.tensor([tiled], device=self._model.device)
        with torch.no_grad():
            return KVState(self._model(input_ids=ids, use_cache=True).past_key_values)
