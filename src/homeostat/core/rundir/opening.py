"""Opening a run directory: who may use a folder, what may go on in it, and what becomes of a failed start."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import filelock
import pydantic
import yaml

from homeostat.core import atomic
from homeostat.core.config import config_hash, resolved
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record, utc_now, write_record
from homeostat.core.rundir import environment
from homeostat.core.rundir.directory import RECORD, RunDir
from homeostat.core.rundir.settings import SETTINGS, explain, grown_from

_LOCK = ".lock"


@contextmanager
def open_run(
    path: str | Path,
    *,
    command: str,
    config: pydantic.BaseModel,
    config_path: str | Path | None = None,
) -> Iterator[RunDir]:
    """Create a run directory, or go on with the one that is there.

    A run goes on when its settings are the same, or differ only in a count that has grown (`grows` of the
    configuration). A folder in which nothing was finished is free for any settings. Refused, before anything
    is written: a folder that another process holds, one with other settings, one that is no run directory.

    When the block fails, the record says `failed` and why; a run that was complete before stays complete.
    """
    folder = Path(path)
    _refuse_foreign(folder)
    with hold(folder):
        run = RunDir(folder, _claim(folder, command, config, config_path))
        run.begin()
        try:
            yield run
        except Exception as error:
            if run.record["status"] != "complete":
                said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                with suppress(UserError):  # a full disk must not hide the reason
                    run.fail(said)
            raise


def check_out(path: str | Path, config: pydantic.BaseModel) -> None:
    """Refuse what `open_run` would refuse, without making anything: call it before slow preparations."""
    folder = Path(path)
    _refuse_foreign(folder)
    check_writable(folder)
    if folder.exists() and _is_held(folder):
        raise UserError(_in_use(folder))
    if (folder / RECORD).exists():
        _refuse_other_settings(folder, config)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written into, without making anything."""
    if not folder.exists():
        existing = next(parent for parent in folder.absolute().parents if parent.exists())
        if not existing.is_dir():
            raise UserError(f"cannot make {folder}: {existing} is a file")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise UserError(f"cannot make {folder}: {existing} is not writable; choose another --out")
    elif not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write into {folder}: no permission; choose another --out")
    elif not folder.is_dir():
        raise UserError(f"{folder} is a file: --out needs a directory")


def default_out(name: str, config: pydantic.BaseModel) -> Path:
    """`runs/<name>` for a command without --out, or `runs/<name>-2`, … where that has other settings.

    The same command therefore always finds its own run again, and another one never collides with it.
    """
    return next(f for f in _candidates(name) if not f.exists() or _may_go_on(f, config))


def unused_out(name: str) -> Path:
    """The first of `runs/<name>`, `runs/<name>-2`, … that does not exist."""
    return next(folder for folder in _candidates(name) if not folder.exists())


def _candidates(name: str) -> Iterator[Path]:
    yield Path("runs") / name
    for number in count(2):
        yield Path("runs") / f"{name}-{number}"


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes out of `folder` for as long as the block runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(_in_use(folder)) from None
    except OSError as error:
        raise UserError(f"cannot use {folder} as a run directory: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


def _claim(folder: Path, command: str, config: pydantic.BaseModel, config_path: str | Path | None) -> Record:
    """The record to go on with, or a new one. The folder is held by this process."""
    path, digest = folder / RECORD, config_hash(config)
    if path.exists():
        record = read_record(path, "run_record")
        if record["config_hash"] == digest:
            return record
        _refuse_other_settings(folder, config)
        if not _is_free(folder):
            record = {**record, "config_hash": digest, "status": "running"}
            record = {key: value for key, value in record.items() if key not in ("error", "finished_utc")}
            _write_settings(folder, config)
            write_record(path, record, "run_record")
            return record
    for log in (folder / "logs").glob("*.jsonl"):  # of an earlier start that finished nothing
        log.unlink()
    record = _new_record(command, config_path, digest)
    _write_settings(folder, config)
    write_record(path, record, "run_record")
    return record


def _refuse_other_settings(folder: Path, config: pydantic.BaseModel) -> None:
    """Refuse a run with other settings, unless it can grow into them or has finished nothing."""
    if read_record(folder / RECORD, "run_record")["config_hash"] == config_hash(config):
        return
    if _is_free(folder) or grown_from(folder, config):
        return
    raise UserError(
        f"{folder} holds a run with other settings ({explain(folder, config)}): choose another --out, or go "
        "on with the settings it was started with"
    )


def _may_go_on(folder: Path, config: pydantic.BaseModel) -> bool:
    if not (folder / RECORD).is_file():
        return folder.is_dir() and (not any(folder.iterdir()) or _only_lock(folder))
    if read_record(folder / RECORD, "run_record")["config_hash"] == config_hash(config):
        return True
    return (_is_free(folder) and not _is_held(folder)) or grown_from(folder, config)


def _is_free(folder: Path) -> bool:
    """Whether nothing was finished here: only the record, the settings and logs of a start that failed."""
    if read_record(folder / RECORD, "run_record")["status"] == "complete":
        return False
    own = {folder / RECORD, folder / SETTINGS, folder / _LOCK}
    logs = folder / "logs"
    return not any(p.is_file() and p not in own and p.parent != logs for p in folder.rglob("*"))


def _is_held(folder: Path) -> bool:
    if not (folder / _LOCK).exists():
        return False
    lock = filelock.FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except (filelock.Timeout, OSError):
        return True
    lock.release()
    return False


def _only_lock(folder: Path) -> bool:
    return [path.name for path in folder.iterdir()] == [_LOCK]


def _in_use(folder: Path) -> str:
    return f"another process is using {folder}: wait for it, or choose another --out"


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: --out needs a directory")
    known = (folder / RECORD).exists() or (folder / _LOCK).exists()
    if folder.is_dir() and not known and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and is not a run directory: choose another --out")


def _write_settings(folder: Path, config: pydantic.BaseModel) -> None:
    text = yaml.safe_dump(resolved(config), sort_keys=False, allow_unicode=True)
    atomic.write_text(folder / SETTINGS, text)


def _new_record(command: str, config_path: str | Path | None, digest: str) -> Record:
    created = utc_now()
    stamp = created[:19].replace("-", "").replace(":", "")
    return {
        "run_id": f"{stamp}-{digest[:8]}-{uuid.uuid4().hex[:6]}",
        "created_utc": created,
        "command": command,
        "config_path": None if config_path is None else str(config_path),
        "config_hash": digest,
        "git": environment.git_state(),
        "env": environment.versions(),
        "status": "running",
    }
