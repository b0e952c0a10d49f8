"""The run directory: everything one run was, made and measured, in one folder.

    run_record.json        who, when, with what
    config_resolved.yaml   every setting, defaults included
    logs/*.jsonl           what happened, step by step
    metrics/*.json         what was measured
    paper/figures, paper/tables
    stages/*.json          results of finished stages: what a resumed run does not do again

One process at a time: a lock (released by the system even after kill -9) keeps others out.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import pydantic
import yaml

from homeostat.core import atomic, environment
from homeostat.core.config import config_hash, resolved
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_jsonl, read_record, utc_now, validate, write_record


class RunDir:
    """A run directory held by this process. Get one from `open_run`."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self.record = record
        self._logs: dict[str, Log] = {}

    @property
    def run_id(self) -> str:
        return str(self.record["run_id"])

    @property
    def config_hash(self) -> str:
        return str(self.record["config_hash"])

    @property
    def figures(self) -> Path:
        return self._folder("paper/figures")

    @property
    def tables(self) -> Path:
        return self._folder("paper/tables")

    def log(self, name: str) -> Log:
        """The log `logs/<name>.jsonl`; its records carry `phase: <name>` unless they set another."""
        if name not in self._logs:
            self._logs[name] = Log(self._folder("logs") / f"{name}.jsonl", self.run_id, name)
        return self._logs[name]

    def write_metrics(self, name: str, metrics: Record, settings: Record) -> Path:
        """Write `metrics/<name>.json` as a metric record. Keys of `metrics` may be dotted names."""
        path = self.path / "metrics" / f"{name}.json"
        record = {
            "run_id": self.run_id,
            "config_hash": self.config_hash,
            "metrics": metrics,
            "settings": settings,
        }
        write_record(path, record, "metric_record")
        return path

    def stage_path(self, name: str) -> Path:
        return self.path / "stages" / f"{name}.json"

    def is_done(self, name: str) -> bool:
        return self.stage_path(name).exists()

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """The JSON result of a stage: computed and stored the first time, read back after that.

        The result passes through JSON both times, so a resumed run sees exactly what the first one saw.
        """
        path = self.stage_path(name)
        if not path.exists():
            result = {"run_id": self.run_id, "stage": name, "result": compute()}
            write_record(path, result, "stage_record")
        return read_record(path, "stage_record")["result"]

    def finish(self) -> None:
        """Mark the run complete in its record."""
        self.record = {**self.record, "status": "complete", "finished_utc": utc_now()}
        write_record(self.path / "run_record.json", self.record, "run_record")

    def _folder(self, relative: str) -> Path:
        folder = self.path / relative
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Log:
    """An append-only JSON-lines log. Each record is checked, then written in one system call."""

    def __init__(self, path: Path, run_id: str, phase: str) -> None:
        self.path = path
        self._run_id = run_id
        self._phase = phase
        _drop_torn_line(path)

    def append(self, step: int, **fields: Any) -> None:
        record = {
            "run_id": self._run_id,
            "phase": self._phase,
            "timestamp_utc": utc_now(),
            "step": step,
            **fields,
        }
        validate(record, "log_record")
        line = atomic.utf8(json.dumps(record, ensure_ascii=False, allow_nan=False)) + b"\n"
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error

    def rewind(self, step: int) -> None:
        """Forget records at or after `step`: a resumed run writes them again, and each appears once."""
        if not self.path.exists():
            return
        kept = [json.dumps(r, ensure_ascii=False) for r in read_jsonl(self.path) if r["step"] < step]
        atomic.write_text(self.path, "".join(line + "\n" for line in kept))

    def read(self) -> Iterator[Record]:
        return read_jsonl(self.path) if self.path.exists() else iter(())


@contextmanager
def open_run(
    path: str | Path,
    *,
    command: str,
    config: pydantic.BaseModel,
    config_path: str | Path | None = None,
) -> Iterator[RunDir]:
    """Create a run directory, or resume the one that is there if it has the same configuration.

    Refuses a directory that another process holds, one with another configuration, and a folder that is
    not a run directory, each before anything is written.
    """
    folder = Path(path)
    digest = config_hash(config)
    _refuse_foreign(folder)
    with hold(folder):
        record_path = folder / "run_record.json"
        if record_path.exists():
            record = read_record(record_path, "run_record")
            if record["config_hash"] != digest:
                raise UserError(
                    f"{folder} holds a run with another configuration (config_hash "
                    f"{record['config_hash'][:12]}, yours is {digest[:12]}): choose another --out, or go on "
                    "with the configuration it was started with"
                )
        else:
            record = _new_record(command, config_path, digest)
            settings = yaml.safe_dump(resolved(config), sort_keys=False, allow_unicode=True)
            atomic.write_text(folder / "config_resolved.yaml", settings)
            write_record(record_path, record, "run_record")
        yield RunDir(folder, record)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes out of `folder` for as long as the block runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", timeout=0)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(f"another process is using {folder}: wait for it, or choose another --out") from None
    except OSError as error:
        raise UserError(f"cannot use {folder} as a run directory: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: --out needs a directory")
    known = (folder / "run_record.json").exists() or (folder / ".lock").exists()
    if folder.is_dir() and not known and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and is not a run directory: choose another --out")


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


def _drop_torn_line(path: Path) -> None:
    """Cut an unfinished last line, which a killed process may have left, so that appending stays valid."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        atomic.write_bytes(path, data[: data.rfind(b"\n") + 1])
