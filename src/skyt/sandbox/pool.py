"""The trusted side of the sandbox: a pool of jails, each started once and reused for every program.

    with SandboxPool(workers=2) as pool:
        results = pool.run(code, contract.entry_point, calls)

A program costs a fork, not an interpreter. Programs never share a process with each other or with this one.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from homeostat.core.errors import UserError
from skyt.contracts.contract import EntryPoint
from skyt.contracts.domain import Call
from skyt.contracts.equality import EXACT, Equality
from skyt.sandbox.job import EncodedCalls, Job, Limits, Rules, encode_calls
from skyt.sandbox.keeper import Jail
from skyt.sandbox.results import CallResult

# Imported before the walls go up; behind them there is no file to import from.
MODULES = (
    "__future__", "abc", "array", "asyncio", "base64", "bisect", "argparse", "calendar", "cmath",
    "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses", "datetime",
    "decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "graphlib", "hashlib",
    "heapq", "html", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "logging",
    "math", "numbers", "operator", "os", "os.path", "pathlib", "pprint", "queue", "random", "re",
    "secrets", "signal", "statistics", "string", "struct", "sys", "textwrap", "threading", "time",
    "timeit", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings",
    "weakref", "zlib",
)  # fmt: skip


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
        self.modules = (*MODULES, *modules)
        settings = {"allow_uncontained": allow_uncontained, "modules": self.modules}
        self._owner = os.getpid()
        self._idle: queue.LifoQueue[Jail] = queue.LifoQueue()
        self._jails: list[Jail] = []
        self._apart: Jail | None = None  # started when it is first needed
        self._one_apart = threading.Lock()
        self._settings = settings
        try:
            for _ in range(workers):
                self._jails.append(Jail(settings))
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
        *,
        equality: Equality = EXACT,
        rules: Rules | None = None,
    ) -> list[CallResult]:
        """The results of the calls, in order, made to one program in one fresh process.

        Results are encoded for comparison by `equality`; `rules` are enforced while the program runs.
        """
        encoded = calls if isinstance(calls, EncodedCalls) else encode_calls(calls)
        return self.run_job(Job(code, entry_point, encoded, equality, rules), limits)

    def run_job(self, job: Job, limits: Limits | None = None) -> list[CallResult]:
        if os.getpid() != self._owner:
            raise RuntimeError("a SandboxPool belongs to the process that made it: make one in each process")
        if job.apart:
            with self._one_apart:
                if self._apart is None:
                    self._apart = Jail({**self._settings, "hash_seed": "random"})
                    self._jails.append(self._apart)
                return self._apart.run(job, limits or self.limits)
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
