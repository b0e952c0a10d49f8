"""Judges in processes of their own, so that nothing a program does can hold a run or the service up.

A few judges are there at once; a service has further ones started in the background, so that samples
that take long do not keep the others waiting. Each sample has a deadline, and a nearer one while others wait;
then the work on it is cut short. A judge that does not even answer to that is killed and replaced.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homeostat.core.errors import UserError
from skyt.contracts.contract import Contract
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.process import Deadline, JudgeGone, JudgeProcess, Reply
from skyt.text.distance import get_distance


@dataclass(frozen=True)
class Patience:
    """How long a judge may take, by itself and while others wait, and whom it lets go first."""

    judge_s: float = float("inf")
    judge_busy_s: float = float("inf")
    slow_judges: int = 0  # further judges, started one after another
    niceness: int = 0  # of the judges; a service comes before them
    problem: Callable[[str], None] = print  # what is done with the news that a further judge did not start


class Judges:
    """The processes, lent to one request each."""

    def __init__(
        self,
        settings: MeasureConfig,
        contracts: Mapping[str, Contract],
        evidence: Sequence[str],
        judges: int,
        patience: Patience,
    ) -> None:
        own = get_distance(settings.distance).function.__module__
        self._setup = json.dumps(
            {
                "settings": settings.model_dump(mode="json", include=set(MeasureConfig.model_fields)),
                "contracts": {name: contract.model_dump(mode="json") for name, contract in contracts.items()},
                "evidence": list(evidence),
                "modules": [] if own.startswith("skyt.") else [own],
                "niceness": patience.niceness,
            }
        ).encode("ascii")
        self._first, self._patience = judges, patience
        self._every: set[JudgeProcess] = set()
        self._free: asyncio.LifoQueue[JudgeProcess | None] = asyncio.LifoQueue()
        self._starting: set[asyncio.Task[None]] = set()
        self._one_start = asyncio.Lock()
        self._waiting = 0
        self._stop_by: float | None = None

    async def start(self) -> None:
        """Some judges now, or `UserError`; the others one after another in the background."""
        starting = (JudgeProcess.start(self._setup) for _ in range(self._first))
        started = await asyncio.gather(*starting, return_exceptions=True)
        for judge in started:
            if isinstance(judge, JudgeProcess):
                self._add(judge)
        for problem in started:
            if isinstance(problem, BaseException):
                await self.close()
                raise problem
        for _ in range(self._patience.slow_judges):
            self._start_another()

    async def ask(self, request: Mapping[str, Any]) -> Reply:
        """The answer of some judge. Never takes longer than the deadlines allow."""
        if self._free.empty() and self._stopped:
            judge = None
        else:
            self._waiting += 1
            try:
                judge = await self._free.get()
            finally:
                self._waiting -= 1
        if judge is None:
            return Reply(None, None, "no judge was free before the service stopped")
        began = time.monotonic()
        try:
            reply = await judge.ask(request, lambda: self._deadline(began))
        except BaseException as error:
            self._every.discard(judge)
            await judge.kill()
            self._start_another()
            if not isinstance(error, JudgeGone):
                raise
            return Reply(None, None, str(error))
        self._free.put_nowait(judge)
        return reply

    def stop_by(self, moment: float) -> None:
        """Samples that are not judged by then are cut short: the service is stopping."""
        self._stop_by = moment
        asyncio.get_running_loop().call_later(moment - time.monotonic(), self._send_away)

    async def close(self) -> None:
        """End every judge, whatever it is doing."""
        self._stop_by = 0.0
        for task in self._starting:
            task.cancel()
        await asyncio.gather(
            *self._starting, *(judge.kill() for judge in self._every), return_exceptions=True
        )

    @property
    def _stopped(self) -> bool:
        return self._stop_by is not None and time.monotonic() >= self._stop_by

    def _send_away(self) -> None:
        for _ in range(self._waiting):
            self._free.put_nowait(None)

    def _deadline(self, began: float) -> Deadline:
        stop, patience = self._stop_by, self._patience
        if stop is not None and stop < began + patience.judge_s:
            return Deadline(stop, "the service is stopping", grace_s=0.5)
        if self._waiting:
            return Deadline(
                began + patience.judge_busy_s, f"over {patience.judge_busy_s:g} s while others wait"
            )
        return Deadline(began + patience.judge_s, f"over {patience.judge_s:g} s")

    def _add(self, judge: JudgeProcess) -> None:
        self._every.add(judge)
        self._free.put_nowait(judge)

    def _start_another(self) -> None:
        if self._stop_by is None:
            task = asyncio.create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self) -> None:
        try:
            async with self._one_start:
                self._add(await JudgeProcess.start(self._setup))
        except (UserError, OSError) as error:
            self._patience.problem(str(error))
