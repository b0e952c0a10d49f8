"""A run directory that this process holds: its records, logs, metrics and finished stages."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import progress
from homeostat.core.records import Record, read_jsonl, read_record, utc_now, validate, write_record

RECORD = "run_record.json"
_LONGEST_ERROR = 500


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

    def each(
        self,
        kind: str,
        names: Sequence[str],
        compute: Callable[[list[int]], Iterable[tuple[int, Any]]],
        *,
        label: str = "",
        told: Callable[[int], Record] = lambda number: {},
    ) -> list[Any]:
        """The results of the stages `<kind>/<name>`, in order, and the log `<kind>` with one record of each.

        `compute` gets the numbers of those that are not stored yet and yields their results as they come, in
        any order. Each is stored at once; its log record begins with what is `told` of it.
        """
        stages = [f"{kind}/{name}" for name in names]
        todo = [number for number, stage in enumerate(stages) if not self.is_done(stage)]
        log, results = self.log(kind), list[Any]()
        log.rewind(0)

        def collect() -> None:
            while len(results) < len(stages) and self.is_done(stages[len(results)]):
                number = len(results)
                result = self.once(stages[number], lambda: None)
                log.append(number, **told(number), **result)
                results.append(result)

        with progress(label or kind, len(stages), done=len(stages) - len(todo)) as bar:
            collect()
            for number, result in compute(todo) if todo else ():
                self.once(stages[number], lambda result=result: result)  # type: ignore[misc]
                collect()
                bar.advance(note=names[number])
        return results

    def finish(self) -> None:
        """Mark the run complete in its record."""
        self._mark(status="complete", finished_utc=utc_now())

    def fail(self, error: str) -> None:
        """Mark the run failed, with the reason in one line."""
        line = " ".join(error.split()) or "no reason was given"
        short = line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"
        self._mark(status="failed", error=short, finished_utc=utc_now())

    def begin(self) -> None:
        """Mark a run that stopped earlier as running again. A complete one stays complete."""
        if self.record["status"] == "failed":
            self._mark(status="running")

    def _mark(self, **fields: str) -> None:
        kept = {key: value for key, value in self.record.items() if key not in ("error", "finished_utc")}
        self.record = {**kept, **fields}
        write_record(self.path / RECORD, self.record, "run_record")

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


def _drop_torn_line(path: Path) -> None:
    """Cut an unfinished last line, which a killed process may have left, so that appending stays valid."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        atomic.write_bytes(path, data[: data.rfind(b"\n") + 1])
