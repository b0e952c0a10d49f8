"""Blocks that must not be read before they are rewritten, and which requests of a step read them anyway.

An engine that is told of a bad block recomputes it for one of the requests that share it and lets the
others go on, perhaps before it is rewritten. So a block stays here, and is reported in every step in which
somebody reads what is not rewritten yet. `good` counts the leading positions that are: whoever rewrites a
block reads no further than that and is not held up, which is what keeps the engine from rewriting the same
block for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cachemedicpp.engines.blocks.plan import Span, Write


class Quarantine:
    def __init__(self, size: int) -> None:
        self._size = size
        self._good: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._good)

    def __contains__(self, block: int) -> bool:
        return block in self._good

    def good(self, block: int) -> int:
        """How many leading positions of a block may be read."""
        return self._good.get(block, self._size)

    def put(self, block: int, good: int = 0) -> None:
        """Only the first `good` positions may be read from now on."""
        self._good[block] = min(good, self._good.get(block, self._size))

    def release(self, block: int) -> None:
        """A block was filled anew from outside."""
        self._good.pop(block, None)

    def judge(
        self, spans: Sequence[Span], writes: Mapping[str, Sequence[Write]]
    ) -> tuple[set[str], set[int]]:
        """The requests whose step is worthless, and the blocks to report, after a step with these writes.

        A request is right if what it read was good when the step began or was rewritten in it: every layer
        writes the whole batch before it attends. What a worthless step wrote does not count, so this goes
        round until nothing changes; each round adds requests, so it ends.
        """
        failed: set[str] = set()
        while self._good:
            good = self._after(writes, failed)
            bad = {
                (span.request, block)
                for span in spans
                for block, n in span.reads()
                if n > good.get(block, self._size)
            }
            found = failed | {request for request, _ in bad}
            if found == failed:
                return failed, {block for _, block in bad}
            failed = found
        return failed, set()

    def settle(self, writes: Mapping[str, Sequence[Write]], failed: set[str]) -> set[int]:
        """Take over what a step wrote; returns the blocks that are whole again.

        What a worthless step wrote is for the caller to put here.
        """
        self._good = self._after(writes, failed)
        whole = {block for block, good in self._good.items() if good >= self._size}
        for block in whole:
            del self._good[block]
        return whole

    def _after(self, writes: Mapping[str, Sequence[Write]], failed: set[str]) -> dict[int, int]:
        good = dict(self._good)
        done = (write for request, made in writes.items() if request not in failed for write in made)
        for write in sorted((w for w in done if w.block in good), key=lambda w: w.low):
            if write.low <= good[write.block]:
                good[write.block] = max(good[write.block], write.high)
        return good
