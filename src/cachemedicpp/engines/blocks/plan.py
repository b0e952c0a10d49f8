"""What one step of an engine reads and writes, request by request, and the mirror of its block tables.

The scheduler sends changes only (`RequestStep`); `Tables` turns them into whole tables (`Span`) on the
other side, which may be another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class RequestStep:
    """One request in one step: its new blocks, and the positions `start … end - 1` that are computed."""

    request: str
    new_blocks: tuple[int, ...]
    start: int
    end: int
    admitted: bool = False  # `new_blocks` is the whole table: a new request, or one that comes back
    tokens: tuple[int, ...] = ()  # of the positions before `start`, where blocks are audited


@dataclass(frozen=True)
class Loaded:
    """A block that is filled from outside for a request, before the step computes."""

    request: str
    block: int
    key: str  # the chain hash of its tokens


@dataclass
class StepPlan:
    """Everything a worker is told about one step."""

    steps: list[RequestStep] = field(default_factory=list)
    finished: tuple[str, ...] = ()
    loads: list[Loaded] = field(default_factory=list)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chain hashes, request by request
    copied: tuple[int, ...] = ()  # blocks that the engine fills by copying others


class Write(NamedTuple):
    """Positions `low … high - 1` of a block, the `number`-th of its request."""

    block: int
    number: int
    low: int
    high: int


@dataclass(frozen=True)
class Span:
    """One request in one step, with its whole table."""

    request: str
    blocks: tuple[int, ...]
    start: int
    end: int
    size: int  # positions in a block
    admitted: bool
    tokens: tuple[int, ...] = ()

    def reads(self) -> Iterator[tuple[int, int]]:
        """Blocks computed before this step, and how many of their positions this step reads."""
        for index in range(-(-self.start // self.size)):
            yield self.blocks[index], min(self.size, self.start - index * self.size)

    def writes(self) -> Iterator[Write]:
        for index in range(self.start // self.size, -(-self.end // self.size)):
            first = index * self.size
            low, high = max(self.start - first, 0), min(self.end - first, self.size)
            yield Write(self.blocks[index], index, low, high)


class Tables:
    """The block tables of the requests that are running, kept from what the scheduler sends."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._blocks: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def spans(self, steps: Iterable[RequestStep]) -> list[Span]:
        """The requests of a step; their tables grow by what is new."""
        found = []
        for step in steps:
            known = () if step.admitted else self._blocks[step.request]
            blocks = self._blocks[step.request] = known + step.new_blocks
            if len(blocks) * self.size < step.end:
                raise ValueError(
                    f"request {step.request} computes position {step.end - 1} with {len(blocks)} blocks of "
                    f"{self.size}: the scheduler's block table and the guard's differ"
                )
            found.append(
                Span(step.request, blocks, step.start, step.end, self.size, step.admitted, step.tokens)
            )
        return found

    def drop(self, requests: Iterable[str]) -> None:
        for request in requests:
            self._blocks.pop(request, None)
