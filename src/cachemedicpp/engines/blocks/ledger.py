"""What is known of every block of a paged cache: fingerprint, when it was written, from what it was computed.

A block's fingerprint is one sum per layer over its first `length` positions (`guard.fingerprint`); `length`
0 means that nothing is known. Steps are numbered: `written` is the last step that wrote to a block,
`verified` the last one after which its bits were seen to be what was written. Links to the block before, as
it was then, say which blocks were computed from which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Sums = NDArray[np.int64]


class BlockLedger:
    """One row for every block of the cache."""

    def __init__(self, blocks: int, layers: int) -> None:
        self.sums: Sums = np.zeros((blocks, layers), np.int64)
        self.length: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.written: NDArray[np.int64] = np.zeros(blocks, np.int64)
        self.verified: NDArray[np.int64] = np.zeros(blocks, np.int64)
        self._born: NDArray[np.int64] = np.zeros(blocks, np.int64)  # how often a block began anew
        self._before: dict[int, tuple[int, int]] = {}  # block → the one before it, and which life of it

    def known(self, block: int) -> bool:
        return bool(self.length[block])

    def record(self, blocks: Iterable[int], lengths: Iterable[int], sums: Sums, step: int) -> None:
        """Fingerprints of blocks as they are now."""
        rows = list(blocks)
        self.sums[rows] = sums
        self.length[rows] = list(lengths)
        self.verified[rows] = step

    def forget(self, blocks: Iterable[int]) -> None:
        self.length[list(blocks)] = 0

    def wrote(self, block: int, low: int, before: int | None, step: int) -> None:
        """A step wrote to a block, from position `low` on; `before` is the block before it, if any."""
        if low == 0:
            self._born[block] += 1
        if self.length[block] > low:  # what was fingerprinted is no longer there
            self.length[block] = 0
        self.written[block] = step
        if before is None:
            self._before.pop(block, None)
        else:
            self._before[block] = (before, int(self._born[before]))

    def changed(self, blocks: list[int], sums: Sums) -> dict[int, list[int]]:
        """Blocks whose sums are not those on record, with the layers that differ."""
        differ = sums != self.sums[blocks]
        return {
            block: np.flatnonzero(row).tolist()
            for block, row in zip(blocks, differ, strict=True)
            if row.any()
        }

    def poisoned(self, block: int) -> set[int]:
        """Blocks that may have been computed from `block` after it was last known to be right."""
        after: dict[int, list[int]] = defaultdict(list)
        for child, (before, life) in self._before.items():
            if life == self._born[before]:
                after[before].append(child)
        since, found, todo = int(self.verified[block]), set[int](), [block]
        while todo:
            for child in after[todo.pop()]:
                if child not in found:
                    found.add(child)
                    todo.append(child)
        return {child for child in found if self.written[child] > since}
