"""The trusted side of one jail: starts it, talks to it through three pipes, replaces it, ends it.

Everything here has a bound: the exchange by a deadline, what is read by the reader's limits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError
from skyt.sandbox.jail import HEADER, PATIENCE
from skyt.sandbox.job import Job, Limits
from skyt.sandbox.reader import Reader
from skyt.sandbox.results import CallResult

JAIL = Path(__file__).with_name("jail.py")
UNSAFE_OPTION = "--i-accept-running-untrusted-code-unsandboxed"
_LOOK = 0.02  # seconds
_GONE = "the jail is gone"


class Jail:
    """One jail process and its three pipes. Used by one thread at a time."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.missing: list[str] = []
        self._start()

    def _start(self) -> None:
        if os.name != "posix":
            raise UserError("the sandbox needs a POSIX system: run it on Linux, or under WSL")
        request_out, self._requests = os.pipe()
        self._status, status_in = os.pipe()
        self._results, results_in = os.pipe()
        os.set_blocking(self._results, False)
        with contextlib.suppress(OSError, AttributeError):
            import fcntl

            fcntl.fcntl(self._results, fcntl.F_SETPIPE_SZ, 1 << 20)
        config = {**self._settings, "results": results_in, "parent": os.getpid()}
        command = [
            sys.executable,
            "-s",
            "-S",
            "-B",
            "-P",
            "-X",
            "utf8",
            str(JAIL),
        ]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [*command, json.dumps(config)],
                stdin=request_out,
                stdout=status_in,
                stderr=subprocess.DEVNULL,
                pass_fds=(results_in,),
                env={"PYTHONHASHSEED": self._settings.get("hash_seed", "0")},
                cwd="/",
                start_new_session=True,
            )
        finally:
            for descriptor in (request_out, status_in, results_in):
                os.close(descriptor)
        self._ready = False

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait for the walls; refuse to go on without them."""
        if self._ready:
            return
        report = self._read_status(time.monotonic() + seconds)
        if report is None:
            self.close()
            raise UserError("the sandbox did not start: run `homeostat doctor`")
        self.missing = report["missing"]
        if not report["ready"]:
            self.close()
            raise UserError(
                f"this system cannot contain untrusted code (missing: {', '.join(self.missing)}), so nothing "
                f"was run; run it on Linux with user namespaces, or accept the risk with {UNSAFE_OPTION}"
            )
        self._ready = True

    def run(self, job: Job, limits: Limits) -> list[CallResult]:
        self.wait_ready()
        body = job.body()
        header = HEADER.pack(
            len(body),
            limits.wall_seconds,
            limits.cpu_seconds,
            limits.call_seconds,
            limits.memory_mb << 20,
            limits.result_bytes,
        )
        reader, report, problem = self._exchange(header + body, job.results, limits)
        if report is None and problem == _GONE:
            # Not the program's doing (it cannot reach the jail): someone ended it from outside. Once more.
            self._restart()
            self.wait_ready()
            reader, report, problem = self._exchange(header + body, job.results, limits)
        if report is None or not reader.started:
            # The jail itself is in doubt, or the child died before it had read its request: start afresh.
            self._restart()
        ending = CallResult("crash", problem)
        if report is not None:
            died = f"signal {-report['exit']}" if report["exit"] < 0 else f"exit code {report['exit']}"
            expired = report["exit"] == -signal.SIGPROF  # the CPU time of a call
            out_of_time = expired or not report["in_time"] or report["cpu"] >= limits.cpu_seconds
            ending = CallResult("timeout") if out_of_time else CallResult("crash", died)
        return reader.results(ending)

    def _exchange(
        self, request: bytes, count: int, limits: Limits
    ) -> tuple[Reader, dict[str, Any] | None, str]:
        """One request and its answer. Interrupted halfway, the jail is replaced: its pipes hold leftovers."""
        try:
            return self._converse(request, Reader(count, limits.result_bytes, limits.output_bytes), limits)
        except BaseException:
            self._restart()
            raise

    def _converse(
        self, request: bytes, reader: Reader, limits: Limits
    ) -> tuple[Reader, dict[str, Any] | None, str]:
        """Send a request while reading results, until the warden reports or the output breaks a limit."""
        unsent = memoryview(request)
        deadline = time.monotonic() + PATIENCE * limits.wall_seconds + 5.0
        os.set_blocking(self._requests, False)
        while True:
            if time.monotonic() > deadline:
                return reader, None, "no answer"
            # Results wait in their pipe until there is reason to look: a wake-up for each would cost more.
            reading, writing, _ = select.select([self._status], [self._requests] if unsent else [], [], _LOOK)
            if writing:
                try:
                    unsent = unsent[os.write(self._requests, unsent[: 1 << 16]) :]
                except OSError:
                    return reader, None, _GONE
            ended = self._status in reading
            # The warden reports after the child's death, so whatever the child wrote is in the pipe by then.
            self._drain(reader)
            if reader.problem:
                return reader, None, reader.problem
            if ended:
                return reader, self._read_status(deadline), _GONE

    def _drain(self, reader: Reader) -> None:
        with contextlib.suppress(BlockingIOError):
            while not reader.problem and (chunk := os.read(self._results, 1 << 18)):
                reader.feed(chunk)

    def _read_status(self, deadline: float) -> dict[str, Any] | None:
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._status], [], [], left)[0]:
                return None
            chunk = os.read(self._status, 4096)
            if not chunk:
                return None
            line += chunk
        report: dict[str, Any] = json.loads(line)
        return report

    def _restart(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        """End the jail and everything in it: with its first process the namespace dies."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for descriptor in (self._requests, self._status, self._results):
            with contextlib.suppress(OSError):
                os.close(descriptor)
