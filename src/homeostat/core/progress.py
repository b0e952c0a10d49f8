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
from typing import TextIO, TypeVar

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
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
        if self.total is None and not self.done:
            return ""
        of = f"/{self.total:g}" if self.total is not None else ""
        return f"{int(self.done + 1e-6)}{of} {self.unit}".strip()

    @property
    def state(self) -> str:
        """`5/12 samples, 20 s, about 28 s left, loss 1.2`."""
        left = f"about {duration(self.left)} left" if self.left else ""
        return ", ".join(filter(None, (self.count, duration(self.seconds), left, self.note)))


class _Display:
    """Every bar of this process that is under way: a live picture on a terminal, lines in a log, or both."""

    def __init__(self) -> None:
        self.silent = False
        self.lines_on_stdout = False
        self._lock = threading.RLock()
        self._bars: list[Bar] = []
        self._live: Live | None = None
        self._over: threading.Event | None = None  # of the heartbeat; None: no lines are written

    @property
    def stream(self) -> TextIO:
        return sys.stdout if self.lines_on_stdout else sys.stderr

    def begin(self, bar: Bar) -> None:
        with self._lock:
            if not self._bars and not self.silent:
                self._open()
            if self._bars and self._bars[-1].joined:
                self._bars[-1].inside = bar
            self._bars.append(bar)
            self._line(bar, bar.count or "started")

    def end(self, bar: Bar, finished: bool) -> None:
        with self._lock:
            state = "done" if finished else "stopped"
            self._line(bar, ", ".join(filter(None, (state, bar.count, duration(bar.seconds)))))
            self._bars.remove(bar)
            for outer in self._bars:
                outer.inside = None if outer.inside is bar else outer.inside
            if not self._bars:
                self._close()

    def _open(self) -> None:
        console = Console(stderr=True)
        if console.is_terminal:
            redirect = sys.stdout.isatty()  # a file gets what is printed, as it is
            self._live = Live(
                get_renderable=self._picture,
                console=console,
                transient=True,
                refresh_per_second=5,
                redirect_stdout=redirect,
            )
            self._live.start()
        if not console.is_terminal or not self.stream.isatty():
            self._over = threading.Event()
            threading.Thread(target=self._beat, args=(self._over, _LOG_EVERY_S), daemon=True).start()

    def _close(self) -> None:
        if self._live is not None:
            self._live.stop()
        if self._over is not None:
            self._over.set()
        self._live = self._over = None

    def _picture(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for bar in list(self._bars):
            drawn = ProgressBar(bar.total, bar.reached, width=40, pulse=bar.total is None)
            table.add_row(bar.description, drawn, Text(bar.state, style="dim"))
        return table

    def _line(self, bar: Bar, state: str) -> None:
        """The outermost bar has a line where it starts and one where it ends."""
        if self._over is not None and bar is self._bars[0]:
            say(f"{bar.description}: {state}")

    def _beat(self, over: threading.Event, every: float) -> None:
        while not over.wait(every):
            if line := " · ".join(f"{bar.description}: {bar.state}" for bar in list(self._bars)):
                say(line)


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
