"""The guard's fingerprints over the blocks of transformers' own continuous batching.

    with model.continuous_batching_context_manager(…) as manager:
        guard = BatchGuard(manager)
        …
        for request, blocks in guard.check().items():   # between two steps, whenever you like
            manager.cancel_request(request)             # its answer may be wrong: ask again

transformers has no way to compute single blocks again: a request cannot be set back. So the guard says
whose answers are in doubt, and the caller cancels and asks again, without sharing blocks
(`allow_block_sharing=False`) so that the damaged ones are not found again. `manager.pause()` stops the loop
between two steps and keeps everything.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cachemedicpp.guard.fingerprint import Weights, digest, weights
from homeostat.core.errors import UserError

_WORDS = 64  # float32 numbers in a row of the view that is fingerprinted


class BatchGuard:
    """Whole blocks of requests that are running, fingerprinted when they are first seen."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._seen: dict[int, tuple[bytes, np.int64]] = {}  # block → what it was computed from, fingerprint
        self._weights: Weights | None = None

    def check(self) -> dict[str, list[int]]:
        """Verify and fingerprint between two steps; requests that read changed blocks, with these blocks."""
        with self._manager.pause():
            allocator, active = self._allocator(), self._manager.batch_processor.scheduler.active_requests
            size = allocator.tokens_per_page
            tables: dict[str, list[tuple[int, bytes]]] = {}
            for name, state in active.items():
                tokens = [*state.initial_tokens, *state.generated_tokens][: state.position_offset]
                table = allocator.block_table.get(name, [])
                tables[name] = _chain(tokens, size, table)
            wanted = {block: made for table in tables.values() for block, made in table}
            now = self._sums(allocator, list(wanted))
        bad = set()
        for block, total in now.items():
            made = wanted[block]
            known = self._seen.get(block)
            if known is not None and known[0] == made and known[1] != total:
                bad.add(block)
            else:
                self._seen[block] = (made, total)
        found = {name: [b for b, _ in table if b in bad] for name, table in tables.items()}
        return {name: blocks for name, blocks in found.items() if blocks}

    def _allocator(self) -> Any:
        processor = self._manager.batch_processor
        if processor is None:
            raise UserError("continuous batching has not started: there is no cache to guard yet")
        found = list(processor.cache.cache_allocators.values())
        if len(found) != 1 or not found[0].supports_block_table:
            raise UserError(
                "this model's cache is not one of full attention alone: the guard does not know it"
            )
        return found[0]

    def _sums(self, allocator: Any, blocks: list[int]) -> dict[int, np.int64]:
        if not blocks:
            return {}
        rows: Tensor = allocator._copy_view[torch.tensor(blocks)].view(torch.float32)
        x = rows.view(len(blocks), 1, -1, _WORDS)
        if self._weights is None:
            self._weights = weights(x, x.shape[2])
        return dict(zip(blocks, digest(x, self._weights).sum(1).cpu().numpy(), strict=True))


def _chain(tokens: list[int], size: int, table: list[int]) -> list[tuple[int, bytes]]:
    """Every whole block with a hash of all tokens up to its end."""
    found, made = [], hashlib.blake2b(digest_size=16)
    for number in range(min(len(tokens) // size, len(table))):
        made.update(repr(tokens[number * size : (number + 1) * size]).encode())
        found.append((table[number], made.digest()))
    return found
