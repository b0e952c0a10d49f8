"""Counters and log lines: what the guard did, for Prometheus and for people.

Every event is one line `guard <what> key=value …` in the engine's log and, where a file is named, one JSON
object in it. Counters are sums since the start; `Counts.take` hands out what was added since the last call,
which is what an engine's own metrics want.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

logger = logging.getLogger("vllm.cachemedicpp")  # below vLLM's own, so that its handlers show our lines


@dataclass
class Counts:
    """Additive counters, all since the start."""

    fingerprinted: int = 0  # blocks
    verified: int = 0
    bad: int = 0  # changed after they were written
    suspect: int = 0  # computed from changed ones, or in a step that failed
    recomputed: int = 0  # blocks that were rewritten and left quarantine
    unknown: int = 0  # hit without a fingerprint: nothing could be verified
    audited: int = 0  # hit without a fingerprint of ours, and judged against their tokens
    foreign: int = 0  # audited, and not of their tokens
    implausible: int = 0  # numbers that cannot be, as they were written
    stored: int = 0
    loaded: int = 0
    refused: int = 0  # stored blocks that were not served
    failed_steps: int = 0  # requests whose step was discarded
    seconds: float = 0.0  # spent by the guard

    def minus(self, other: Counts) -> Counts:
        return Counts(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})


class Events:
    """Where the guard reports to."""

    def __init__(self, file: str = "") -> None:
        self.counts = Counts()
        self._taken = Counts()
        self._file = Path(file) if file else None

    def say(self, what: str, **about: Any) -> None:
        """One event, one line."""
        text = " ".join(f"{key}={_short(value)}" for key, value in about.items())
        logger.warning("guard %s %s", what, text)
        if self._file is not None:
            line = json.dumps({"event": what, "time": time.time(), **about}) + "\n"
            try:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(line)
            except OSError as error:
                logger.warning("guard cannot write its log %s: %s", self._file, error)
                self._file = None

    @contextmanager
    def timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.counts.seconds += time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """What was counted since the last call."""
        now = Counts(**asdict(self.counts))
        new, self._taken = now.minus(self._taken), now
        return {name: value for name, value in asdict(new).items() if value}


def _short(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > 8:
        return "[" + ",".join(map(str, value[:8])) + f",… {len(value)} in all]"
    return str(value).replace(" ", "-")
