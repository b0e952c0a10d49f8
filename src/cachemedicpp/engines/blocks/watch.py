"""The guard of one worker: after every step it verifies, fingerprints, and says what is to be recomputed.

Looking after the forward pass and before its token is accepted means that damage which was there while
attention read is still there to be seen, and that the token can still be discarded.

- A request that is admitted with computed blocks (a prefix hit, a load) has all of them verified.
- While requests decode, every N steps the blocks they read are verified, those that waited longest first.
- A full block is fingerprinted in the step that fills it; the unfinished last block of a request whenever N
  comes.
- A changed block, and every block computed from it since it was last known to be right, goes into
  quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from cachemedicpp.engines.blocks.ledger import BlockLedger, Sums
from cachemedicpp.engines.blocks.plan import Span, StepPlan, Tables, Write
from cachemedicpp.engines.blocks.quarantine import Quarantine
from cachemedicpp.engines.events import Events


class Cache(Protocol):
    """What the guard needs of a paged cache (`paged.PagedCache`)."""

    size: int
    blocks: int

    @property
    def by_position(self) -> bool: ...

    def __len__(self) -> int: ...

    def sums(self, blocks: list[int], lengths: list[int]) -> Sums: ...

    def clear(self, block: int, first: int) -> None: ...


Audit = Callable[[Sequence[int], Sequence[int]], Mapping[int, str]]  # blocks, tokens → what is wrong


class Watch:
    def __init__(
        self,
        cache: Cache,
        events: Events,
        every: int = 16,
        budget: int = 64,
        vouch: bool = False,
        audit: Audit | None = None,
        audit_hits: bool = False,
    ) -> None:
        self.cache = cache
        self.events = events
        self.every = every
        self.budget = budget
        self.vouch = (
            vouch  # a request that fills a block has all it read verified: the block leaves the engine
        )
        self._audit = audit
        self._audit_hits = audit_hits
        self._audited: set[int] = set()  # blocks that need no audit until they are written again
        self.foreign: set[int] = set()  # blocks of the last step that were not of their tokens
        self.ledger = BlockLedger(cache.blocks, len(cache))
        self.tables = Tables(cache.size)
        self.quarantine = Quarantine(cache.size)
        self.now = 0
        self._next = 0  # where the scan of blocks at rest goes on
        self.failed: set[str] = set()  # requests whose last step was worthless
        self.filled: list[tuple[Span, Write]] = []  # blocks that the last step filled and that are right

    def load(
        self, span: Span, block: int, expected: Sums | None, broken: bool, vouched: bool = False
    ) -> None:
        """A block was filled from outside; `expected` is its fingerprint, where one is known. With it the
        block leaves quarantine, because it is verified after this step. `vouched`: it was computed here."""
        index = span.blocks.index(block)
        self.ledger.wrote(block, 0, span.blocks[index - 1] if index else None, self.now)
        if broken:
            self._hold(block, 0)
        elif expected is not None:
            self.quarantine.release(block)
            self.ledger.record([block], [self.cache.size], expected[None], self.now)
        if vouched:
            self._audited.add(block)
        else:
            self._audited.discard(block)

    def begin(self, plan: StepPlan) -> list[Span]:
        """A step begins: tables grow, requests that ended are forgotten.

        A request that lags behind may rewrite the end of a block that another has already completed: its
        beginning must be right before, because the block will have a new fingerprint afterwards.
        """
        self.now += 1
        self.tables.drop(plan.finished)
        self.ledger.forget(plan.copied)
        self._audited.difference_update(plan.copied)
        spans = self.tables.spans(plan.steps)
        made = {w.block: w.low for span in spans for w in span.writes()}
        with self.events.timed():
            self._verify([b for b, low in made.items() if 0 < low < self.ledger.length[b]], spans)
        return spans

    def end(self, spans: list[Span]) -> set[int]:
        """A step has computed: the blocks to report."""
        with self.events.timed():
            writes = {span.request: list(span.writes()) for span in spans}
            made = _merged(write for some in writes.values() for write in some)
            self._verify(self._due(spans, made), spans)
            self._verify(self._begun(made), spans)
            self.failed, report = self.quarantine.judge(spans, writes)
            self._settle(spans, writes)
            self._record(made)
            self.filled = [
                (span, write)
                for span in spans
                if span.request not in self.failed
                for write in writes[span.request]
                if write.high == self.cache.size and write.block not in self.quarantine
            ]
            self._tell(report)
            return report

    def doubt(self, span: Span, write: Write) -> None:
        """A block that was just filled cannot be right: it is computed again, and what came from it too."""
        for other in span.writes():
            if other.number >= write.number:
                self._hold(other.block, other.low)
        self.filled = [(s, w) for s, w in self.filled if s.request != span.request or w.number < write.number]

    @property
    def _scans(self) -> bool:
        return self.every > 0 and self.now % self.every == 0

    def _due(self, spans: list[Span], made: Mapping[int, Write]) -> list[int]:
        """Blocks to verify after this step, each once."""

        def at_rest(span: Span) -> Iterable[int]:
            return (b for b, _ in span.reads() if b not in made and b not in self.quarantine)

        size = self.cache.size
        looked = [s for s in spans if s.admitted or (self.vouch and s.end // size > s.start // size)]
        hit = dict.fromkeys(block for span in looked for block in at_rest(span))
        strange = [block for block in hit if not self.ledger.known(block)]
        judged = self._judged(looked, [block for block in hit if block not in self._audited])
        if strange:  # nothing to compare with; from here on there is
            self.events.counts.unknown += sum(block not in judged for block in strange)
            kept = [block for block in strange if block not in self.quarantine]
            whole = [self.cache.size] * len(kept)
            self.ledger.record(kept, whole, self.cache.sums(kept, whole), self.now)
        due = [block for block in hit if block not in {*strange, *self.foreign}]
        if self._scans and len(due) < self.budget:
            others = {b for span in spans for b in at_rest(span)} - hit.keys()
            waiting = sorted(
                (b for b in others if self.ledger.known(b)), key=lambda b: (self.ledger.verified[b], b)
            )
            due += waiting[: self.budget - len(due)]
        return due

    def _judged(self, spans: list[Span], blocks: list[int]) -> set[int]:
        """Of the blocks that are hit, those that are audited; what is not of its tokens is condemned."""
        self.foreign, judged = set(), set[int]()
        for span in spans if self._audit is not None and blocks else ():
            whole = span.blocks[: min(span.start, len(span.tokens)) // self.cache.size]
            due = {block for block in whole if block in set(blocks) - judged}
            if not due or self._audit is None:
                continue
            why = self._audit(whole, span.tokens)
            judged |= due
            self.events.counts.audited += len(due)
            for block in due & why.keys():
                self.foreign.add(block)
                self._condemn(block, [], why[block], span.request)
        self.events.counts.foreign += len(self.foreign)
        self._audited |= judged - self.foreign
        return judged

    def _begun(self, made: Mapping[int, Write]) -> list[int]:
        """Blocks fingerprinted unfinished that have grown since: what was there must still be there."""
        due = (b for b, write in made.items() if self._scans or write.high == self.cache.size)
        return [b for b in due if 0 < self.ledger.length[b] <= made[b].low]

    def _verify(self, blocks: list[int], spans: Iterable[Span] = ()) -> None:
        if not blocks:
            return
        now = self.cache.sums(blocks, self.ledger.length[blocks].tolist())
        found = self.ledger.changed(blocks, now)
        self.events.counts.verified += len(blocks)
        holders = {block: span.request for span in spans for block, _ in span.reads()} if found else {}
        for block, layers in found.items():
            self._condemn(block, layers, "changed", holders.get(block))
        right = [block for block in blocks if block not in found]
        self.ledger.verified[right] = self.now

    def _condemn(self, block: int, layers: list[int], why: str, request: str | None = None) -> None:
        computed = self.ledger.poisoned(block) - {block}
        age = self.now - int(self.ledger.verified[block])
        for one in (block, *computed):
            self._hold(one, 0)
        self.events.counts.bad += 1
        self.events.counts.suspect += len(computed)
        self.events.say(
            "bad-block",
            block=block,
            why=why,
            request=request,
            layers=layers,
            step=self.now,
            steps_since_right=age,
            computed_from_it=sorted(computed),
        )

    def _hold(self, block: int, good: int) -> None:
        """Into quarantine, and emptied: kernels multiply what lies behind a sequence's end by 0, and 0 times
        NaN is NaN, so whoever rewrites a block must not find NaN in the rest of it."""
        self.quarantine.put(block, good)
        if self.ledger.length[block] > good:
            self.ledger.forget([block])
        self.cache.clear(block, good)

    def _settle(self, spans: list[Span], writes: Mapping[str, list[Write]]) -> None:
        for span in spans:
            for write in writes[span.request]:
                before = span.blocks[write.number - 1] if write.number else None
                self.ledger.wrote(write.block, write.low, before, self.now)
                if not self._audit_hits:  # computed here
                    self._audited.add(write.block)
                elif write.low == 0:
                    self._audited.discard(write.block)
        held = len(self.quarantine)
        whole = self.quarantine.settle(writes, self.failed)
        for request in self.failed:
            for write in writes[request]:
                self._hold(write.block, write.low)
        self.events.counts.recomputed += len(whole)
        if held and whole:
            self.events.say(
                "recomputed", blocks=sorted(whole), step=self.now, in_quarantine=len(self.quarantine)
            )

    def _record(self, made: Mapping[int, Write]) -> None:
        tails = self._scans and self.cache.by_position
        new = [b for b, write in made.items() if tails or write.high == self.cache.size]
        kept = [block for block in new if self.quarantine.good(block) >= made[block].high]
        if kept:
            lengths = [made[block].high for block in kept]
            self.ledger.record(kept, lengths, self.cache.sums(kept, lengths), self.now)
            self.events.counts.fingerprinted += len(kept)

    def _tell(self, report: set[int]) -> None:
        if report:
            self.events.counts.failed_steps += len(self.failed)
            self.events.say("report", blocks=sorted(report), requests=sorted(self.failed), step=self.now)

    def at_rest(self) -> int:
        """How many blocks have a fingerprint."""
        return int(np.count_nonzero(self.ledger.length))

    def rest(self, limit: int) -> int:
        """Verify the next `limit` blocks in turn while no step runs; returns how many there were."""
        with self.events.timed():
            known = [b for b in np.flatnonzero(self.ledger.length).tolist() if b not in self.quarantine]
            blocks = [b for b in known if b >= self._next][:limit] or known[:limit]
            if blocks:
                self._next = blocks[-1] + 1
                self._verify(blocks)
            return len(blocks)


def _merged(writes: Iterable[Write]) -> dict[int, Write]:
    """By block; requests that share a block may rewrite it in the same step."""
    made: dict[int, Write] = {}
    for write in writes:
        other = made.get(write.block, write)
        low, high = min(write.low, other.low), max(write.high, other.high)
        made[write.block] = write._replace(low=low, high=high)
    return made
