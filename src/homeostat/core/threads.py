"""How many threads torch uses, and how they wait for each other.

One thread for each physical core that this process may use: its affinity allows the core, and the quota of
its control group pays for it. `HOMEOSTAT_THREADS` sets another number. Threads that wait sleep:
on a busy machine, a thread that spins holds the core that the other one needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from homeostat.core.errors import UserError

VARIABLE = "HOMEOSTAT_THREADS"
_GROUPS, _MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def threads() -> int:
    """Threads for one process that computes alone: as set, or one per core."""
    import psutil

    if value := os.environ.get(VARIABLE):
        if not value.isascii() or not value.isdigit() or int(value) < 1:
            raise UserError(f"{VARIABLE} = {value!r}: must be a whole number, at least 1")
        return int(value)
    if value := os.environ.get("OMP_NUM_THREADS"):
        return int(value.split(",")[0])
    return min(cores(), psutil.cpu_count(logical=False) or cores())


def cores() -> int:
    """Cores that this process may use, those that are halves of a physical one included."""
    exist = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else exist
    return max(1, int(min(allowed, *quotas(), exist)))


def share(workers: int) -> int:
    """Threads for each of `workers` processes that compute at the same time."""
    return max(1, threads() // workers)


def quotas(groups: Path = _GROUPS, mount: Path = _MOUNT) -> Iterator[float]:
    """Cores' worth of time that each control group around this process may use. None outside Linux."""
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mount / controllers if controllers else mount
        inside = root / group.lstrip("/")
        for folder in (inside, *inside.parents):
            yield from _quota(folder)
            if folder == root:
                break


def _quota(folder: Path) -> Iterator[float]:
    """The limit of one group. Version 2 of control groups has one file, version 1 has two."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
    except OSError:
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        except OSError:
            return
    if quota not in ("max", "-1"):
        yield int(quota) / int(period)


def prepare() -> None:
    """Tell OpenMP, for this process and those that it starts. Works before torch is imported."""
    os.environ["OMP_NUM_THREADS"] = str(threads())
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
