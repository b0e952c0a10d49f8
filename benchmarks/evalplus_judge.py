"""EvalPlus's rule, applied directly: the independent judge that contracts are measured against.

A program is accepted when every base and plus input gives a result equal to that of the task's canonical
solution. Equal means Python's `==`, or numbers within `atol` (1e-6 where the expected result is a float or a
flat list of floats) of the same outermost type. HumanEval/32 accepts every zero of the polynomial.

Nothing of `skyt` is used here: a program runs by plain `exec` in a forked process with limits on time and
memory, as user `nobody` where this process may become that. That is no sandbox: judge only recorded programs
that you know.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import math
import os
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

LEAST_SECONDS, FACTOR, MOST_SECONDS = 1.0, 4.0, 60.0
NOBODY = 65534
# Loaded beforehand: `nobody` may not be able to read where Python is installed.
MODULES = (
    "abc", "base64", "bisect", "calendar", "cmath", "collections", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq",
    "inspect", "io", "itertools", "json", "keyword", "math", "numbers", "operator", "os", "pathlib",
    "pprint", "queue", "random", "re", "secrets", "shutil", "statistics", "string", "struct", "subprocess",
    "textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata", "unittest",
    "urllib.request", "uuid", "warnings", "zlib", "collections.abc", "numpy", "numpy.linalg",
)  # fmt: skip


class Judge:
    """The tasks of an EvalPlus file with what their canonical solutions give."""

    def __init__(self, path: Path, wanted: set[str] | None = None) -> None:
        for module in MODULES:
            importlib.import_module(module)
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            tasks = [json.loads(line) for line in lines]
        self.tasks = {task["task_id"].replace("/", "_"): task for task in tasks}
        self.tasks = {name: task for name, task in self.tasks.items() if wanted is None or name in wanted}
        self.expected = {name: _expected(task) for name, task in self.tasks.items()}

    def verdict(self, name: str, code: str) -> str:
        """`pass`, or what went wrong first: `load`, `wrong`, `raises`, `time`, `died`."""
        task, (results, seconds) = self.tasks[name], self.expected[name]
        limits = [max(LEAST_SECONDS, FACTOR * spent) for spent in seconds]
        words = ["pass", "load", "wrong", "raises", "time"]
        child = os.fork()
        if child == 0:
            try:
                os._exit(words.index(_run(task, code, results, limits)))
            except TimeoutError:
                os._exit(4)
            finally:
                os._exit(70)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGXCPU or status == -signal.SIGKILL:
            return "time"
        return words[status] if 0 <= status < len(words) else "died"

    def verdicts(self, programs: list[tuple[str, str]], workers: int = 1) -> list[str]:
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(lambda program: self.verdict(*program), programs))


def _expected(task: dict[str, Any]) -> tuple[list[Any], list[float]]:
    space: dict[str, Any] = {}
    exec(task["prompt"] + task["canonical_solution"], space)  # noqa: S102 - the task's own solution
    results, seconds = [], []
    for arguments in [*task["base_input"], *task["plus_input"]]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        results.append(space[task["entry_point"]](*deepcopy(arguments)))
        seconds.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
    return results, seconds


def _expire(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _run(task: dict[str, Any], code: str, results: list[Any], limits: list[float]) -> str:
    _confine(min(MOST_SECONDS, sum(limits)) + 2)
    for number in (signal.SIGALRM, signal.SIGPROF):  # CPU time decides; the clock only ends what sleeps
        signal.signal(number, _expire)
    signal.alarm(int(2 * MOST_SECONDS))
    space: dict[str, Any] = {"__name__": "program"}
    try:
        signal.setitimer(signal.ITIMER_PROF, 10)
        exec(code, space)  # noqa: S102 - see the module's docstring
        function = space[task["entry_point"]]
    except TimeoutError:
        return "time"
    except BaseException:
        return "load"
    inputs = [*task["base_input"], *task["plus_input"]]
    for arguments, wanted, limit in zip(inputs, results, limits, strict=True):
        given = deepcopy(arguments) if task["entry_point"] == "find_zero" else arguments
        try:
            signal.setitimer(signal.ITIMER_PROF, limit)
            got = function(*arguments)
            right = _right(task, given, got, wanted)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except TimeoutError:
            return "time"
        except BaseException:
            return "raises"
        if not right:
            return "wrong"
    return "pass"


def _right(task: dict[str, Any], arguments: list[Any], got: Any, wanted: Any) -> bool:
    atol = task["atol"]
    if task["entry_point"] == "find_zero":
        return abs(sum(c * math.pow(got, i) for i, c in enumerate(arguments[0]))) <= atol
    if got == wanted:
        return True
    flat = isinstance(wanted, list | tuple) and wanted and all(isinstance(x, float) for x in wanted)
    atol = atol or (1e-6 if isinstance(wanted, float) or flat else 0)
    if not atol or type(got) is not type(wanted):
        return False
    if isinstance(wanted, list | tuple) and len(got) != len(wanted):
        return False
    return bool(np.allclose(got, wanted, rtol=1e-07, atol=atol))


def _confine(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    os.chdir("/")
    with contextlib.suppress(PermissionError):
        os.setuid(NOBODY)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.setrecursionlimit(1000)
