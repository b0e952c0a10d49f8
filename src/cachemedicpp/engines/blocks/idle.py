"""Verifying blocks at rest while an engine has nothing to do.

A thread of its own, a few blocks at a time. `busy` waits for the scan to let go (a few milliseconds at
most) and keeps it out until `done`.
"""

from __future__ import annotations

import threading
import time

from cachemedicpp.engines.blocks.watch import Watch

_AT_A_TIME = 4  # blocks verified before the thread looks whether a step has begun


class IdleScan:
    def __init__(self, watch: Watch, after: float) -> None:
        self._watch = watch
        self._after = after
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._steps = False  # whether a step is under way
        self._stop = threading.Event()
        if after > 0:
            threading.Thread(target=self._run, name="guard-idle", daemon=True).start()

    def busy(self) -> None:
        if self._after > 0:
            with self._lock:
                self._steps = True

    def done(self) -> None:
        self._steps = False
        self._last = time.monotonic()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        left = 0  # blocks verified since the last step: every one once is enough until something happens
        seen = self._last
        while not self._stop.wait(self._after / 4 if left >= self._watch.at_rest() else 0.0005):
            if seen != self._last:
                seen, left = self._last, 0
            with self._lock:
                idle = not self._steps and time.monotonic() - self._last >= self._after
                if idle and left < self._watch.at_rest():
                    left += self._watch.rest(_AT_A_TIME)
            if not idle:
                self._stop.wait(self._after / 4)
