"""One judge process, seen from outside: started, asked, cut short, killed; no wait is without end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from homeostat.core.errors import UserError

_SLOW_S = 0.5  # after which a program gives way to those of others
_LOOK_S = 0.05  # how often a deadline is looked at, because it may come nearer
_KILL_S = 1.0  # for a killed process to be gone
_START_S = 120.0
_ANSWER_BYTES = 256 << 20


class JudgeGone(Exception):  # noqa: N818 - replaced by a new one; the sample is recorded as not judged
    """A judge's process ended or did not let go of its sample."""


@dataclass(frozen=True)
class Reply:
    """What a judge said about one request; `answer` is missing where it was cut short."""

    prepared: dict[str, Any] | None
    answer: dict[str, Any] | None
    why: str = ""


class Deadline(NamedTuple):
    """Until when a judge may work on a sample, why not longer, and how long it may take to let go of it."""

    until: float
    reason: str
    grace_s: float = 1.0


class JudgeProcess:
    """One process, `skyt.runs.judging.worker`. It works on one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both were asked for as pipes")
        self._process, self._requests, self._answers = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, setup: bytes) -> JudgeProcess:
        """A process that is ready to judge, or `UserError` with its reason."""
        judge = cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "skyt.runs.judging.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=_ANSWER_BYTES,
            )
        )
        answer: dict[str, Any] = {}
        try:
            with contextlib.suppress(JudgeGone, TimeoutError):
                async with asyncio.timeout(_START_S):
                    judge._requests.write(setup + b"\n")
                    answer = await judge._receive()
        finally:
            if "ready" not in answer:
                await judge.kill()
        if "ready" not in answer:
            raise UserError(answer.get("refused") or "a judge did not start")
        return judge

    async def ask(self, request: Mapping[str, Any], deadline: Callable[[], Deadline]) -> Reply:
        """Send a request and wait; `deadline` is asked again and again, because it may come nearer."""
        self._requests.write(json.dumps(request).encode("ascii") + b"\n")
        prepared = cut_at = None
        why, lower_at = "", time.monotonic() + _SLOW_S
        receiving = asyncio.ensure_future(self._receive())
        try:
            while True:
                await asyncio.wait({receiving}, timeout=_LOOK_S)
                now = time.monotonic()
                if receiving.done():
                    answer = receiving.result()
                    if "prepared" not in answer:
                        return Reply(prepared, None if "cut" in answer else answer, why)
                    prepared = answer["prepared"]
                    receiving = asyncio.ensure_future(self._receive())
                if cut_at is None and now >= (limit := deadline()).until:
                    cut_at, why = now + limit.grace_s, limit.reason
                    self._process.send_signal(signal.SIGUSR1)
                if cut_at is not None and now > cut_at:
                    raise JudgeGone(why)
                if now > lower_at:
                    lower_at = now + _SLOW_S
                    _lower_programs(self._process.pid)
        finally:
            receiving.cancel()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._requests.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_S):
                await self._process.wait()

    async def _receive(self) -> dict[str, Any]:
        try:
            line = await self._answers.readline()
        except ValueError as error:
            raise JudgeGone("its answer is too large") from error
        if not line.endswith(b"\n"):
            raise JudgeGone("its process ended")
        try:
            return dict(json.loads(line))
        except ValueError as error:
            raise JudgeGone("its answer is not JSON") from error


def _lower_programs(judge: int) -> None:
    """Give the lowest priority to the programs a judge runs: below its sandbox and the sandbox's supervisor.

    Each program is a process of its own that ends with its calls, so nothing has to be raised again.
    """
    supervisors = [child for sandbox in _children(judge) for child in _children(sandbox)]
    waiting = [program for supervisor in supervisors for program in _children(supervisor)]
    while waiting:
        program = waiting.pop()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, program, 19)
        waiting += _children(program)


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:  # gone, or not Linux
        return []
    return [int(child) for child in text.split()]
