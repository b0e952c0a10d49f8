"""The jail: one interpreter started once, locked in for good, that forks a child for each program.

Run as `python -s -S -B -P jail.py CONFIG`. Three pipes connect it with the trusted side: requests in
(descriptor 0), its own word on how each child ended (descriptor 1), and the children's results.

    supervisor  outside the process namespace; ends the jail when the trusted side dies
      └ warden  process 1 of its namespace; never runs a stranger's code, never reads a request's body
          └ child  one per program: reads its request, gives up everything it could still do, runs the program
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import site
import struct
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE = 3.0  # times the wall limit, for programs that compute on a busy machine
WINDOW, SHARE = 0.5, 0.01  # seconds, and the part of them that tells a busy machine from a sleeping program
ASLEEP = 0.0002  # CPU seconds in a window: a program that waits for its turn on a busy machine gets more
HEADER = struct.Struct("<QdddQQ")  # body bytes, wall s, CPU s, call s, memory bytes, result bytes

ENCODINGS = ("ascii", "latin_1", "utf_8", "utf_8_sig", "utf_16", "utf_32", "cp1252", "punycode", "idna",
             "unicode_escape", "raw_unicode_escape")  # fmt: skip


def main() -> None:
    config = json.loads(sys.argv[1])
    results = config["results"]
    here = Path(__file__).parent
    codec = _load(here.parent / "contracts" / "codec.py")
    names = ("harness", "settle", "enforce", "lockdown")
    harness, settle, enforce, lockdown = (_load(here / f"{name}.py") for name in names)
    for module in [*config["modules"], *(f"encodings.{name}" for name in ENCODINGS), "_strptime"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for give in (site.setquit, site.setcopyright, site.sethelper):  # builtins that a user's program finds
        give()
    forms = (here / "forms.py").read_text(encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 2)
    os.environ.clear()

    missing, filtered = [], None
    libc = lockdown.libc() if lockdown.available() else None
    parent = _watch(config["parent"])
    try:
        if libc is None:
            raise lockdown.MissingError(f"Linux on x86_64 or aarch64 (this is {sys.platform})")
        lockdown.enter_namespaces(libc)
        if (warden := os.fork()) != 0:
            _supervise(warden, parent)
        lockdown.empty_root(libc)
        lockdown.drop_privileges(libc)
        filtered = lockdown.call_filter()
        if (probe := os.fork()) == 0:
            _probe(lockdown, libc, filtered)
        if os.waitstatus_to_exitcode(os.waitpid(probe, 0)[1]) != 0:
            filtered = None
            raise lockdown.MissingError("system-call filter (seccomp)")
    except lockdown.MissingError as problem:
        missing.append(str(problem))
    if missing and not config["allow_uncontained"]:
        _say({"ready": False, "missing": missing})
        os._exit(1)
    for name in ("ctypes", "ctypes.util", "_ctypes", "_posixsubprocess", "subprocess"):
        sys.modules.pop(name, None)
    keep = {0, 1, 2, null, results}
    for descriptor in range(3, 256):
        if descriptor not in keep:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    offered = [name for name in config["modules"] if name in sys.modules]
    enforcer = enforce.Enforcer([*sys.modules.values(), codec, harness, settle, enforce], offered, forms)
    gc.collect()
    gc.freeze()
    _say({"ready": True, "missing": missing})

    def enter(body: bytes, limits: tuple[Any, ...]) -> None:
        _, _, cpu, call, memory, result = limits
        for descriptor in (0, 1):
            os.dup2(null, descriptor)
        os.dup2(results, 3)
        os.closerange(4, 256)
        lockdown.limit_resources(memory, cpu)
        if filtered is not None:
            lockdown.filter_calls(libc, filtered)
        harness.serve(body, 3, call, result, codec, settle, enforcer)

    _serve(enter)


def _serve(enter: Any) -> None:
    """Fork a child for each request, wait for its end or its deadline, sweep up, report."""
    while (header := _read(HEADER.size)) is not None:
        limits = HEADER.unpack(header)
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                enter(_read(limits[0]) or b"", limits)
                os._exit(0)
            finally:
                os._exit(70)
        in_time = _wait(child, started, limits[1], limits[2])
        if not in_time:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        _sweep(child)
        _say(
            {
                "exit": os.waitstatus_to_exitcode(status),
                "in_time": in_time,
                "cpu": usage.ru_utime + usage.ru_stime,
                "seconds": time.monotonic() - started,
            }
        )


def _wait(child: int, started: float, wall: float, cpu: float) -> bool:
    """Whether the child ended by itself in time.

    A child that sleeps is charged for it as if it computed. One that is past its deadline but still gets a
    share of CPU time is not asleep; the machine is busy. It gets more time, within a limit.
    """
    used = slept = 0.0
    while not _ended(child, WINDOW):
        before, used = used, _cpu_seconds(child)
        passed, asleep = time.monotonic() - started, used - before < SHARE * WINDOW
        slept += WINDOW * (used - before < ASLEEP)
        if slept >= cpu or (asleep and passed >= wall) or passed >= PATIENCE * wall:
            return False
    return True


def _ended(child: int, seconds: float) -> bool:
    """Wait for the child's end, so long; leaves it to be reaped."""
    if hasattr(os, "pidfd_open"):
        descriptor = os.pidfd_open(child)
        try:
            return bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.002)
    return False


def _cpu_seconds(child: int) -> float:
    """CPU time of another process, where the system has a clock for it (Linux)."""
    if sys.platform != "linux":
        return 0.0
    try:
        return time.clock_gettime((~child << 3) | 2)
    except OSError:
        return 0.0


def _sweep(child: int) -> None:
    """End whatever a program started. As process 1 of a namespace, everything else in it is the program's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _supervise(warden: int, parent: int | None) -> None:
    """Wait for the warden's end or the trusted side's death, whichever comes first. Does not return."""
    for descriptor in range(256):
        if descriptor != parent:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    own = os.pidfd_open(warden)
    select.select([own] if parent is None else [own, parent], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.kill(warden, signal.SIGKILL)
    os.waitpid(warden, 0)
    os._exit(0)


def _watch(parent: int) -> int | None:
    """A descriptor that becomes readable when the trusted side dies."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    if os.getppid() != parent:
        os._exit(1)
    return descriptor


def _probe(lockdown: Any, libc: Any, filtered: Any) -> None:
    """Try the filter on a throw-away child: it must load, and a fork after it must fail."""
    try:
        lockdown.filter_calls(libc, filtered)
        os.fork()
    except PermissionError:
        os._exit(0)
    finally:
        os._exit(1)


def _read(size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, min(size - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _say(report: dict[str, Any]) -> None:
    os.write(1, json.dumps(report).encode() + b"\n")


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
