"""An engine small enough to think about: its scheduler recomputes as vLLM's does, its numbers are hashes.

What position `p` of a request stores depends on its token and on every stored number before it, as
attention's does. So one damaged number changes everything computed from it, and an answer is right only if
everything it was computed from was.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from cachemedicpp.engines.blocks.plan import RequestStep, StepPlan
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events

SIZE = 4
NAN = -1  # spreads to whatever is computed with it, from places behind a sequence's end too


class FakeCache:
    """Blocks of integers; one layer."""

    size = SIZE
    by_position = True

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.content = np.zeros((blocks, SIZE), np.int64)

    def __len__(self) -> int:
        return 1

    def clear(self, block: int, first: int) -> None:
        self.content[block, first:] = 0

    def sums(self, blocks: list[int], lengths: list[int]) -> np.ndarray:
        weights = np.array([3, 5, 7, 11], np.int64)
        rows = [(self.content[b, :n] * weights[:n]).sum() for b, n in zip(blocks, lengths, strict=True)]
        return np.array(rows, np.int64).reshape(-1, 1)


@dataclass
class Request:
    name: str
    tokens: list[int]
    prompt: int
    wanted: int
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    admitted: bool = False

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt :]

    @property
    def done(self) -> bool:
        return len(self.output) >= self.wanted


class FakeEngine:
    """Chunked prefill, a prefix cache filled when blocks are scheduled, and vLLM's way with bad blocks."""

    def __init__(
        self, guard: bool, chunk: int = 0, blocks: int = 64, every: int = 1, budget: int = 1000
    ) -> None:
        self.cache = FakeCache(blocks)
        self.watch = Watch(self.cache, Events(), every, budget) if guard else None
        self.chunk = chunk
        self.free = list(range(1, blocks))
        self.prefix: dict[tuple[int, ...], int] = {}
        self.running: list[Request] = []
        self.finished: list[str] = []
        self.steps = 0

    def add(self, name: str, tokens: list[int], wanted: int) -> Request:
        request = Request(name, list(tokens), len(tokens), wanted)
        for end in range(SIZE, len(tokens), SIZE):
            block = self.prefix.get(tuple(tokens[:end]))
            if block is None:
                break
            request.blocks.append(block)
            request.computed = end
        self.running.append(request)
        return request

    def abort(self, request: Request) -> None:
        self.running.remove(request)
        self.finished.append(request.name)

    def step(self) -> None:
        """Schedule, compute, verify, take over the tokens."""
        self.steps += 1
        scheduled: dict[str, int] = {}
        steps = []
        for request in self.running:
            count = len(request.tokens) - request.computed
            count = min(count, self.chunk) if self.chunk else count
            new = -(-(request.computed + count) // SIZE) - len(request.blocks)
            added = [self.free.pop(0) for _ in range(max(new, 0))]
            request.blocks += added
            for end in range(SIZE, request.computed + count + 1, SIZE):
                self.prefix.setdefault(tuple(request.tokens[:end]), request.blocks[end // SIZE - 1])
            first = not request.admitted
            request.admitted = True
            told = tuple(request.blocks if first else added)
            steps.append(
                RequestStep(request.name, told, request.computed, request.computed + count, admitted=first)
            )
            scheduled[request.name] = count
        spans = self.watch.begin(StepPlan(steps, tuple(self.finished))) if self.watch else []
        self.finished = []
        sampled = self._compute(scheduled)
        for request in self.running:
            request.computed += scheduled[request.name]
        report = self.watch.end(spans) if self.watch else set()
        skipped = self._recompute(report, scheduled)
        for request in list(self.running):
            if request.name not in skipped and request.computed == len(request.tokens):
                request.tokens.append(sampled[request.name])
                if request.done:
                    self.abort(request)

    def _compute(self, scheduled: dict[str, int]) -> dict[str, int]:
        """One layer: positions in order over the whole batch, so that sharers read what the step rewrites."""
        sampled: dict[str, int] = {}
        work = [(p, r) for r in self.running for p in range(r.computed, r.computed + scheduled[r.name])]
        for place, request in sorted(work, key=lambda pair: pair[0]):
            value = self._number(request, place)
            self.cache.content[request.blocks[place // SIZE], place % SIZE] = value
        for request in self.running:
            end = request.computed + scheduled[request.name]
            sampled[request.name] = self._number(request, end) % 50
        return sampled

    def _number(self, request: Request, place: int) -> int:
        before = [int(self.cache.content[request.blocks[p // SIZE], p % SIZE]) for p in range(place)]
        if any(NAN in self.cache.content[block] for block in request.blocks[: place // SIZE + 1]):
            return NAN
        token = request.tokens[place] if place < len(request.tokens) else -1
        return int.from_bytes(hashlib.blake2b(repr((before, token)).encode(), digest_size=4).digest())

    def _recompute(self, report: set[int], scheduled: dict[str, int]) -> set[str]:
        """As vLLM does: the first request with a bad block computes it again, the others only wait a step."""
        marked: set[int] = set()
        affected: set[str] = set()
        for request in self.running if report else ():
            before = request.computed - scheduled[request.name]
            cut = False
            for index in range(-(-before // SIZE)):
                block = request.blocks[index]
                if block not in report:
                    continue
                affected.add(request.name)
                if block in marked:
                    continue
                marked.add(block)
                if not cut:
                    cut, request.computed = True, index * SIZE
            if request.name in affected and not cut:
                request.computed = before
        return affected
