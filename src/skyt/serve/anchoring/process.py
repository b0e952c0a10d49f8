"""One judge process, seen from the service: started, asked, cut short, killed; no wait is without end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from homeostat.core.errors import UserError
from skyt.serve.anchoring.worker import LENGTH
from skyt.serve.protocol.codec import BadJsonError, read_json, write_json

_SLOW_S = 0.5  # after which a program gives way to those of others
LOOK_S = 0.05  # how often a waiting thread looks at the clock
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
    """One process. Used by one thread at a time."""

    def __init__(self, setup: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "skyt.serve.anchoring.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both were asked for as pipes")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._number = 0
        self._unread = bytearray()
        self._send(setup, time.monotonic() + _START_S)

    def wait_ready(self) -> None:
        answer = self._receive(time.monotonic() + _START_S)
        if answer is None or "ready" not in answer:
            self.kill()
            raise UserError((answer or {}).get("refused") or "a judge of the service did not start")

    def ask(self, request: Mapping[str, Any], deadline: Callable[[], Deadline]) -> Reply:
        """Send a request and wait; `deadline` is asked again and again, because it may come nearer."""
        self._number += 1
        prepared = None
        self._send(write_json({**request, "number": self._number}), time.monotonic() + _START_S)
        cut_at = why = None
        lower_at = time.monotonic() + _SLOW_S
        while True:
            now = time.monotonic()
            if cut_at is None and now >= (limit := deadline()).until:
                cut_at, why = now + limit.grace_s, limit.reason
                self._process.send_signal(signal.SIGUSR1)
            if cut_at is not None and now > cut_at:
                raise JudgeGone(why)
            if now > lower_at:
                lower_at = now + _SLOW_S
                _lower_programs(self._process.pid)
            answer = self._receive(now + LOOK_S)
            if answer is None or answer["number"] != self._number:
                continue
            if "prepared" in answer:
                prepared = answer["prepared"]
            elif "cut" in answer:
                return Reply(prepared, None, why or "cut short")
            else:
                return Reply(prepared, answer)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)

    def _send(self, data: bytes, deadline: float) -> None:
        """Write without ever waiting longer than the deadline."""
        descriptor = self._stdin.fileno()
        os.set_blocking(descriptor, False)
        unsent = memoryview(LENGTH.pack(len(data)) + data)
        while unsent:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [descriptor], [], left)[1]:
                raise JudgeGone("it takes no request")
            try:
                unsent = unsent[os.write(descriptor, unsent[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise JudgeGone("its process ended") from error

    def _receive(self, deadline: float) -> dict[str, Any] | None:
        """The next answer, or None at the deadline. What has come so far is kept."""
        descriptor = self._stdout.fileno()
        while True:
            if len(self._unread) >= LENGTH.size:
                (size,) = LENGTH.unpack(self._unread[: LENGTH.size])
                if size > _ANSWER_BYTES:
                    raise JudgeGone("its answer is too large")
                if len(self._unread) >= LENGTH.size + size:
                    data = bytes(self._unread[LENGTH.size : LENGTH.size + size])
                    del self._unread[: LENGTH.size + size]
                    return self._parsed(data)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            chunk = os.read(descriptor, 1 << 18)
            if not chunk:
                raise JudgeGone("its process ended")
            self._unread += chunk

    @staticmethod
    def _parsed(data: bytes) -> dict[str, Any]:
        try:
            return dict(read_json(data))
        except BadJsonError as error:
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
