"""Progress on long work: one display with every bar on a terminal, lines with a heartbeat in a log.

A terminal on stderr shows bars. Where output is not a terminal, the outermost bar writes a line when it
starts, one every half minute whether or not anything moved, and one when it ends. Bars may be nested: inner
ones join the display of the outermost.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

T = TypeVar("T")
_LOG_EVERY_S = 30.0


class Bar:
    """A running count with its own clock."""

    def __init__(
        self, description: str, total: int | None, done: int = 0, unit: str = "", joined: bool = False
    ) -> None:
        self.description, self.total, self.done, self.unit, self.note = description, total, done, unit, ""
        self.joined, self.inside = joined, None
        self._behind, self._began, self._ahead = done, time.monotonic(), 0.0

    inside: Bar | None  # of a joined bar: the bar that is one step of this one

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Move on by `steps`, and show `note` beside the count from now on."""
        self.done += steps
        if note is not None:
            self.note = note

    def skip(self, steps: int) -> None:
        """Move on by steps that an earlier run made: they say nothing about the pace of this one."""
        self.done += steps
        self._behind += steps

    def ahead(self, steps: float) -> None:
        """How many steps' worth of work is under way: moves the bar and the time left, not the count."""
        self._ahead = steps

    @property
    def reached(self) -> float:
        """Steps done and under way."""
        inside = self.inside
        share = inside.reached / inside.total if inside is not None and inside.total else 0.0
        found = self.done + self._ahead + share
        return found if self.total is None else min(found, self.total)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float | None:
        """Seconds that remain at the pace so far; None while there is no pace to go by."""
        made = self.reached - self._behind
        if self.total is None or made <= 0:
            return None
        return (self.total - self.reached) * self.seconds / made

    @property
    def count(self) -> str:
        """`5/12 samples`; whole steps only."""
        of = f"/{self.total:g}" if self.total is not None else ""
        return (
            "" if self.total is None and not self.done else f"{int(self.done + 1e-6)}{of} {self.unit}".strip()
        )

    def __str__(self) -> str:
        left = self.left
        parts = [
            self.count,
            duration(self.seconds),
            f"about {duration(left)} left" if left else "",
            self.note,
        ]
        return f"{self.description}: " + ", ".join(part for part in parts if part)


class _Sink(Protocol):
    """Where bars are shown."""

    def begin(self, bar: Bar, outermost: bool) -> None: ...
    def end(self, bar: Bar, outermost: bool, finished: bool) -> None: ...
    def close(self) -> None: ...


class _Terminal:
    """All bars in one live display on stderr."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), _State())
        redirect = sys.stdout.isatty()  # a file gets what is printed, as it is
        self._live = Progress(*columns, console=console, transient=True, redirect_stdout=redirect)
        self._live.start()

    def begin(self, bar: Bar, outermost: bool) -> None:
        self._live.add_task(bar.description, total=bar.total, completed=bar.done, bar=bar)

    def end(self, bar: Bar, outermost: bool, finished: bool) -> None:
        for task in self._live.tasks:
            if task.fields["bar"] is bar:
                self._live.remove_task(task.id)

    def close(self) -> None:
        self._live.stop()


class _State(ProgressColumn):
    """The count, the time spent and left. Being drawn is also when a bar's own count reaches the display."""

    max_refresh = 0.2

    def render(self, task: Task) -> Text:
        bar: Bar = task.fields["bar"]
        task.completed = bar.reached
        return Text(str(bar).removeprefix(f"{bar.description}: "), style="dim")


class _Lines:
    """A line at the start, a heartbeat, a line at the end."""

    def __init__(self) -> None:
        self._bars: list[Bar] = []
        self._over = threading.Event()
        threading.Thread(target=self._beat, args=(_LOG_EVERY_S,), daemon=True).start()

    def begin(self, bar: Bar, outermost: bool) -> None:
        self._bars.append(bar)
        if outermost:
            say(f"{bar.description}: {bar.count or 'started'}")

    def end(self, bar: Bar, outermost: bool, finished: bool) -> None:
        self._bars.remove(bar)
        if outermost:
            state = "done" if finished else "stopped"
            say(f"{bar.description}: " + ", ".join(filter(None, (state, bar.count, duration(bar.seconds)))))

    def close(self) -> None:
        self._over.set()

    def _beat(self, every: float) -> None:
        while not self._over.wait(every):
            if line := " · ".join(str(bar) for bar in list(self._bars)):
                say(line)


class _Display:
    """Every bar of this process that is under way, and where they are shown."""

    def __init__(self) -> None:
        self.silent = False
        self.lines_on_stdout = False
        self._lock = threading.RLock()
        self._bars: list[Bar] = []
        self._sinks: list[_Sink] = []

    @property
    def stream(self) -> TextIO:
        return sys.stdout if self.lines_on_stdout else sys.stderr

    def begin(self, bar: Bar) -> None:
        with self._lock:
            if not self._bars and not self.silent:
                self._sinks = list(self._open())
            if self._bars and self._bars[-1].joined:
                self._bars[-1].inside = bar
            self._bars.append(bar)
            for sink in self._sinks:
                sink.begin(bar, bar is self._bars[0])

    def end(self, bar: Bar, finished: bool) -> None:
        with self._lock:
            for sink in self._sinks:
                sink.end(bar, bar is self._bars[0], finished)
            self._bars.remove(bar)
            for outer in self._bars:
                outer.inside = None if outer.inside is bar else outer.inside
            if not self._bars:
                for sink in self._sinks:
                    sink.close()
                self._sinks = []

    def _open(self) -> Iterator[_Sink]:
        console = Console(stderr=True)
        if console.is_terminal:
            yield _Terminal(console)
        if not console.is_terminal or not self.stream.isatty():
            yield _Lines()


_display = _Display()


@contextmanager
def progress(
    description: str, total: int | None = None, done: int = 0, unit: str = "", joined: bool = False
) -> Iterator[Bar]:
    """A progress bar for a block; `done` is what a resumed run has behind it already.

    With `joined`, a bar inside the block is one step of this one, and moves it on while it runs.
    """
    bar = Bar(description, total, done, unit, joined)
    _display.begin(bar)
    finished = False
    try:
        yield bar
        finished = True
    finally:
        _display.end(bar, finished)


def track(items: Iterable[T], description: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """Iterate with a progress bar."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(description, total, unit=unit) as bar:
        for item in items:
            yield item
            bar.advance()


def say(line: str) -> None:
    """One line for people, at once: on stderr, or with the rest of a command's output."""
    print(line, file=_display.stream, flush=True)


def lines_on_stdout() -> None:
    """For the command line: lines go to stdout, so that `homeostat … > log` has them. Libraries: stderr."""
    _display.lines_on_stdout = True


def silence() -> None:
    """For worker processes: the process that started them shows how far they are."""
    _display.silent = True


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `1 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
