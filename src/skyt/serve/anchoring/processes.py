"""Judges in processes of their own, so that nothing a program does can hold the service up.

A few judges are there before the service serves; further ones are started in the background, so that samples
that take long do not keep the others waiting. Each sample has a deadline, and a nearer one while others wait;
then the work on it is cut short. A judge that does not even answer to that is killed and replaced.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract
from skyt.runs.config import MeasureConfig
from skyt.serve.anchoring.process import LOOK_S, Deadline, JudgeGone, JudgeProcess, Reply
from skyt.serve.protocol.codec import write_json
from skyt.text.distance import get_distance


class Judges:
    """The processes, lent to one thread each."""

    def __init__(
        self,
        settings: MeasureConfig,
        contracts: Mapping[str, Contract],
        evidence: Sequence[str],
        *,
        judges: int,
        slow_judges: int,
        sample_s: float,
        busy_sample_s: float,
    ) -> None:
        own = get_distance(settings.distance).function.__module__
        self._setup = write_json(
            {
                "settings": settings.model_dump(mode="json"),
                "contracts": {name: contract.model_dump(mode="json") for name, contract in contracts.items()},
                "evidence": list(evidence),
                "modules": [] if own.startswith("skyt.") else [own],
            }
        )
        self._most, self._sample_s, self._busy_s = judges + slow_judges, sample_s, busy_sample_s
        self._free: list[JudgeProcess] = []
        self._busy: dict[JudgeProcess, float] = {}  # since when
        self._starting = self._waiting = 0
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stop_by: float | None = None
        self._closed = False
        self._change = threading.Condition()
        started = [JudgeProcess(self._setup) for _ in range(judges)]
        try:
            for process in started:
                process.wait_ready()
        except BaseException:
            for process in started:
                process.kill()
            raise
        self._free = started
        # A judge dies with the thread that started it, so one thread that lives on starts all later ones.
        for _ in range(slow_judges):
            self._order()
        threading.Thread(target=self._start_on_order, name="judge-starter", daemon=True).start()

    @property
    def most(self) -> int:
        return self._most

    def ask(self, request: Mapping[str, Any]) -> Reply:
        """The answer of some judge. Never takes longer than the deadlines allow."""
        with self._change:
            self._waiting -= 1
        with self._lent() as process:
            if process is None:
                return Reply(None, None, "no judge was free before the service stopped")
            began = time.monotonic()
            try:
                return process.ask(request, lambda: self._deadline(began))
            except JudgeGone as gone:
                self._replace(process)
                return Reply(None, None, str(gone))

    def expect(self) -> None:
        """A request is on its way to `ask`: those before it should know that someone waits."""
        with self._change:
            self._waiting += 1

    def stop_by(self, moment: float) -> None:
        """Samples that are not judged by then are cut short: the service is stopping."""
        with self._change:
            self._stop_by = moment
            self._change.notify_all()

    def close(self) -> None:
        """End every judge, whatever it is doing."""
        with self._change:
            self._closed = True
            self._stop_by = 0.0
            self._orders.put(False)
            every = [*self._free, *self._busy]
            self._free = []
            self._change.notify_all()
        for process in every:
            process.kill()

    def _deadline(self, began: float) -> Deadline:
        stop = self._stop_by
        if stop is not None and stop < began + self._sample_s:
            return Deadline(stop, "the service is stopping", grace_s=0.5)
        if self._waiting and self._full:
            return Deadline(began + self._busy_s, f"over {self._busy_s:g} s while others wait")
        return Deadline(began + self._sample_s, f"over {self._sample_s:g} s")

    @property
    def _full(self) -> bool:
        return len(self._free) + len(self._busy) + self._starting >= self._most and not self._free

    @contextmanager
    def _lent(self) -> Iterator[JudgeProcess | None]:
        process = self._take()
        try:
            yield process
        finally:
            with self._change:
                if process is not None and self._busy.pop(process, None) is not None:
                    if self._closed:
                        process.kill()
                    else:
                        self._free.append(process)
                self._change.notify()

    def _take(self) -> JudgeProcess | None:
        with self._change:
            self._waiting += 1
            try:
                while not self._free:
                    if self._closed or (self._stop_by is not None and time.monotonic() > self._stop_by):
                        return None
                    self._change.wait(LOOK_S)
            finally:
                self._waiting -= 1
            process = self._free.pop()
            self._busy[process] = time.monotonic()
            return process

    def _order(self) -> None:
        self._starting += 1
        self._orders.put(True)

    def _start_on_order(self) -> None:
        while self._orders.get() and not self._closed:
            self._start()

    def _start(self) -> None:
        process: JudgeProcess | None = None
        try:
            process = JudgeProcess(self._setup)
            process.wait_ready()
        except (UserError, JudgeGone, OSError):
            if process is not None:
                process.kill()
            process = None
        with self._change:
            self._starting -= 1
            if process is not None and self._closed:
                process.kill()
            elif process is not None:
                self._free.append(process)
            self._change.notify_all()

    def _replace(self, process: JudgeProcess) -> None:
        process.kill()
        with self._change:
            self._busy.pop(process, None)
            if not self._closed:
                self._order()
