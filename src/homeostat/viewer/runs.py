"""Finding runs below a folder, and saying in a few figures what each one is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.rundir.directory import RECORD
from homeostat.report.build import key_figures, sparkline, systems
from homeostat.report.reading import RunFiles
from homeostat.report.sections.run import duration, model_name
from homeostat.report.status import failure, run_status

_DEPTH = 5
_INNER = {"logs", "metrics", "paper", "stages", "canon", "figures", "checkpoints", "operators"}


class Runs:
    """The runs below one folder. Nothing outside it is ever read, whatever links say."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"no such folder: {root} (give the folder that holds your runs)")
        self.root = root.resolve()
        self._summaries: dict[Path, tuple[str, dict[str, Any]]] = {}

    def find(self) -> Iterator[Path]:
        """Run directories, by name; links to folders are not followed."""
        for folder, children, names in os.walk(self.root, followlinks=False):
            here = Path(folder)
            deep = len(here.relative_to(self.root).parts) >= _DEPTH
            is_run = RECORD in names
            children[:] = [] if deep else sorted(c for c in children if not self._skipped(here / c, is_run))
            if is_run:
                yield here

    def locate(self, relative: str) -> Path:
        """A run directory by its path below the root. Anything else, above all a way out, is refused."""
        parts = relative.split("/")
        plain = relative == "." or all(part not in ("", ".", "..") for part in parts)
        if not plain or any(c in relative for c in ("\0", "\\")):
            raise LookupError(relative)
        path = self.root if relative == "." else self.root.joinpath(*parts)
        if path.resolve() != path or not path.is_relative_to(self.root) or not (path / RECORD).is_file():
            raise LookupError(relative)
        return path

    def files(self, path: Path) -> RunFiles:
        return RunFiles(path, inside=self.root)

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def summaries(self) -> list[dict[str, Any]]:
        """One entry a run, newest first; read again only where its files changed."""
        found = [self._summary(path) for path in self.find()]
        self._summaries = {path: self._summaries[path] for path in self._summaries if path.exists()}
        return sorted(found, key=lambda run: (run["started"] or "", run["path"]), reverse=True)

    def _summary(self, path: Path) -> dict[str, Any]:
        mark = fingerprint(path)
        known = self._summaries.get(path)
        if known is None or known[0] != mark:
            known = (mark, self._summarise(path, mark))
            self._summaries[path] = known
        return {**known[1], "status": run_status(self.files(path))}  # a lock is released without a trace

    def _summarise(self, path: Path, mark: str) -> dict[str, Any]:
        files = self.files(path)
        record = files.record
        return {
            "path": self.name(path),
            "title": path.name,
            "systems": [system.name for system in systems(files)],
            "command": record.get("command"),
            "model": model_name(files.config),
            "started": record.get("created_utc"),
            "duration": duration(record),
            "figures": key_figures(files)[:6],
            "spark": sparkline(files),
            "last": _last_event(files),
            "error": failure(files),
            "version": mark,
        }

    @staticmethod
    def _skipped(path: Path, inside_run: bool) -> bool:
        return path.name.startswith(".") or path.is_symlink() or (inside_run and path.name in _INNER)


def fingerprint(path: Path) -> str:
    """Changes whenever a file of the run does."""
    newest, total = 0, 0
    for folder in (path, path / "metrics", path / "logs", path / "stages", path / "paper" / "figures"):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                        stat = entry.stat(follow_symlinks=False)
                        newest, total = max(newest, stat.st_mtime_ns), total + stat.st_size
        except OSError:
            continue
    return f"{newest:x}-{total:x}"


def _last_event(files: RunFiles) -> str | None:
    """The newest log line's phase and step: where a run that is going on has got to."""
    logs = files.files("logs", ".jsonl")
    if not logs:
        return None
    newest = max(logs, key=lambda p: p.stat().st_mtime_ns)
    last = files.last_line(newest.relative_to(files.path).as_posix())
    return f"{last.get('phase')} {last.get('step')}" if last else None
