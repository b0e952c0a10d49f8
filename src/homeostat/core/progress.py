"""Progress of long work: a bar on a terminal, occasional lines in a log file. Always on stderr."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")
_LOG_EVERY_S = 30.0


class Bar(ABC):
    """A running count. `advance(note=…)` moves it forward and may show a note beside it."""

    @abstractmethod
    def advance(self, steps: int = 1, note: str | None = None) -> None: ...


class _TerminalBar(Bar):
    def __init__(self, progress: Progress, description: str, total: int | None, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=done, note="")

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        if note is None:
            self._progress.advance(self._task, steps)
        else:
            self._progress.update(self._task, advance=steps, note=note)


class _LogBar(Bar):
    def __init__(self, description: str, total: int | None, done: int) -> None:
        self._description, self._total, self._done = description, total, done
        self._last = time.monotonic()

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._last >= _LOG_EVERY_S:
            self._last = now
            of = f"/{self._total}" if self._total is not None else ""
            print(f"{self._description}: {self._done}{of} {note or ''}".rstrip(), file=sys.stderr, flush=True)


@contextmanager
def progress(description: str, total: int | None = None, done: int = 0) -> Iterator[Bar]:
    """A progress bar for a block; `done` is what an earlier run has finished."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LogBar(description, total, done)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as live:
        yield _TerminalBar(live, description, total, done)


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate with a progress bar."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(description, total) as bar:
        for item in items:
            yield item
            bar.advance()
