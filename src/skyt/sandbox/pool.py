"""The trusted side of the sandbox: a pool of jails, each started once and reused for every program.

    with SandboxPool(workers=2) as pool:
        results = pool.run(code, contract.entry_point, calls)

A program costs a fork, not an interpreter. Programs never share a process with each other or with this one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from homeostat.errors import UserError
from skyt.contract import EntryPoint
from skyt.domain import Call
from skyt.sandbox.jail import HEADER
from skyt.sandbox.results import CallResult, parse

JAIL = Path(__file__).with_name("jail.py")
_LOOK = 0.02  # seconds
_GONE = "the jail is gone"
UNSAFE_OPTION = "--i-accept-running-untrusted-code-unsandboxed"

# Imported before the walls go up; behind them there is no file to import from.
MODULES = (
    "__future__", "abc", "array", "base64", "bisect", "calendar", "cmath", "collections",
    "collections.abc", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "heapq", "html", "inspect", "io", "itertools", "json", "keyword", "logging",
    "math", "numbers", "operator", "os", "os.path", "pathlib", "pprint", "queue", "random", "re",
    "secrets", "signal", "statistics", "string", "struct", "sys", "textwrap", "threading", "time",
    "timeit", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings",
    "weakref", "zlib",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What one program may use for a batch of calls. CPU time decides: a busy machine changes no verdict."""

    call_seconds: float = 1.0
    cpu_seconds: float = 5.0
    wall_seconds: float = 12.0
    memory_mb: int = 512
    result_bytes: int = 1 << 20
    output_bytes: int = 64 << 20


@dataclass(frozen=True)
class EncodedCalls:
    """Calls ready to be sent, to be reused for many programs."""

    count: int
    data: bytes


def encode_calls(calls: Iterable[Call]) -> EncodedCalls:
    encoded = [call.to_json() for call in calls]
    return EncodedCalls(len(encoded), json.dumps(encoded, separators=(",", ":")).encode("ascii"))


@dataclass(frozen=True)
class Job:
    """One program and the calls to make to it."""

    code: str
    entry_point: EntryPoint
    calls: EncodedCalls

    def body(self) -> bytes:
        head = {"code": self.code, "kind": self.entry_point.kind, "name": self.entry_point.name}
        return json.dumps(head).encode("ascii") + b"\n" + self.calls.data


class SandboxPool:
    """Jails that run programs. Refuses to start where nothing can contain them, unless told otherwise."""

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        *,
        allow_uncontained: bool = False,
        modules: Iterable[str] = (),
    ) -> None:
        if workers < 1:
            raise UserError(f"workers = {workers}: the sandbox needs at least one")
        self.limits = limits or Limits()
        self.workers = workers
        self._settings = {"allow_uncontained": allow_uncontained, "modules": [*MODULES, *modules]}
        self._owner = os.getpid()
        self._idle: queue.LifoQueue[Jail] = queue.LifoQueue()
        self._jails: list[Jail] = []
        try:
            for _ in range(workers):
                self._jails.append(Jail(self._settings))
            for jail in self._jails:
                jail.wait_ready()
                self._idle.put(jail)
        except BaseException:
            self.close()
            raise

    @property
    def contained(self) -> bool:
        return all(not jail.missing for jail in self._jails)

    def run(
        self,
        code: str,
        entry_point: EntryPoint,
        calls: Sequence[Call] | EncodedCalls,
        limits: Limits | None = None,
    ) -> list[CallResult]:
        """The results of the calls, in order, made to one program in one fresh process."""
        encoded = calls if isinstance(calls, EncodedCalls) else encode_calls(calls)
        return self.run_job(Job(code, entry_point, encoded), limits)

    def run_job(self, job: Job, limits: Limits | None = None) -> list[CallResult]:
        if os.getpid() != self._owner:
            raise RuntimeError("a SandboxPool belongs to the process that made it: make one in each process")
        jail = self._idle.get()
        try:
            return jail.run(job, limits or self.limits)
        finally:
            self._idle.put(jail)

    def run_many(self, jobs: Sequence[Job], limits: Limits | None = None) -> list[list[CallResult]]:
        """The results of many jobs, in order, on all workers."""
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(lambda job: self.run_job(job, limits), jobs))

    def close(self) -> None:
        for jail in self._jails:
            jail.close()
        self._jails.clear()

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
                env={"PYTHONHASHSEED": "0"},
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
        output, report, problem = self._exchange(header + body, limits)
        if report is None and problem == _GONE:
            # Not the program's doing (it cannot reach the jail): someone ended it from outside. Once more.
            self._restart()
            self.wait_ready()
            output, report, problem = self._exchange(header + body, limits)
        if report is None or not output:
            # The jail itself is in doubt, or the child died before it had read its request: start afresh.
            self._restart()
        ending = CallResult("crash", problem)
        if report is not None:
            died = f"signal {-report['exit']}" if report["exit"] < 0 else f"exit code {report['exit']}"
            out_of_time = not report["in_time"] or report["cpu"] >= limits.cpu_seconds
            ending = CallResult("timeout") if out_of_time else CallResult("crash", died)
        return parse(bytes(output), job.calls.count, ending)

    def _exchange(self, request: bytes, limits: Limits) -> tuple[bytearray, dict[str, Any] | None, str]:
        """Send a request while reading results; the warden's report ends it."""
        output, unsent, most = bytearray(), memoryview(request), limits.output_bytes
        deadline = time.monotonic() + limits.wall_seconds + 5.0
        os.set_blocking(self._requests, False)
        while True:
            if time.monotonic() > deadline:
                return output, None, "no answer"
            # Results wait in their pipe until there is reason to look: a wake-up for each would cost more.
            reading, writing, _ = select.select([self._status], [self._requests] if unsent else [], [], _LOOK)
            if writing:
                try:
                    unsent = unsent[os.write(self._requests, unsent[: 1 << 16]) :]
                except OSError:
                    return output, None, _GONE
            ended = self._status in reading
            # The warden reports after the child's death, so whatever the child wrote is in the pipe by then.
            self._drain(output, most)
            if len(output) > most:
                return output, None, "too much output"
            if ended:
                return output, self._read_status(deadline), _GONE

    def _drain(self, output: bytearray, most: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(output) <= most and (chunk := os.read(self._results, 1 << 18)):
                output += chunk

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
