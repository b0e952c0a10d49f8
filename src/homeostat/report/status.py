"""Is a run complete, failed, going on, or was it interrupted? The record says it, or else the lock."""

from __future__ import annotations

from pathlib import Path

from homeostat.report.reading import RunFiles

_LOCKS = Path("/proc/locks")


def run_status(files: RunFiles) -> str:
    """`complete`, `failed`, `running`, `interrupted`, or `unknown` where the record is damaged.

    Where the system does not list its locks, a run that is not complete counts as running.
    """
    recorded = files.record.get("status")
    if recorded != "running":
        return str(recorded) if recorded else "unknown"
    return "interrupted" if lock_held(files.path / ".lock") is False else "running"


def failure(files: RunFiles) -> str | None:
    """Why a failed run failed, as its record says; None for every other run."""
    if run_status(files) != "failed":
        return None
    return str(files.record.get("error") or "the run left no reason")


def lock_held(lock: Path) -> bool | None:
    """Whether a process holds the run's lock, found without touching it; None where that cannot be known."""
    try:
        inode = lock.stat().st_ino
        held = _LOCKS.read_text(encoding="ascii")
    except FileNotFoundError:
        return False if _LOCKS.exists() else None
    except OSError:
        return None
    return any(
        line.split()[-3].rpartition(":")[2] == str(inode) for line in held.splitlines() if "FLOCK" in line
    )
