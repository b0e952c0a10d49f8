"""Reading a run directory for display: what is there, what is not, and what is damaged.

A page must open for a run that is half done or partly broken, so nothing here raises for a bad file: the
problem is kept and shown. Only a folder that is no run directory at all is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.core.rundir.directory import RECORD
from homeostat.core.rundir.settings import SETTINGS

_TAIL = 1_000_000  # bytes at the end of a log that hold its last line


class RunFiles:
    """The files of one run, read leniently. `problems` collects what could not be read.

    With `inside`, a file that a link places outside that folder is a problem too, and is not read.
    """

    def __init__(self, path: str | Path, inside: Path | None = None) -> None:
        self.path = Path(path)
        self._inside = None if inside is None else inside.resolve()
        self.problems: list[str] = []
        if not self.path.is_dir():
            raise UserError(f"no such run directory: {self.path}")
        if not (self.path / RECORD).is_file():
            raise UserError(f"{self.path} is not a run directory: it has no {RECORD}")

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @cached_property
    def record(self) -> Record:
        return self.json(RECORD) or {}

    @cached_property
    def config(self) -> Record:
        """Every setting of the run, or nothing where the file is missing or damaged."""
        try:
            loaded = yaml.safe_load(self.text(SETTINGS) or "")
        except yaml.YAMLError as error:
            self.problem(SETTINGS, error)
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def metrics(self, name: str) -> Record | None:
        """The `metrics` of `metrics/<name>.json`."""
        return self._part(name, "metrics")

    def settings(self, name: str) -> Record:
        return self._part(name, "settings") or {}

    def _part(self, name: str, part: str) -> Record | None:
        found = (self.json(f"metrics/{name}.json") or {}).get(part)
        return found if isinstance(found, dict) else None

    def metric_names(self) -> list[str]:
        return sorted(path.stem for path in self.files("metrics", ".json"))

    def json(self, relative: str) -> Record | None:
        content = self.text(relative)
        if content is None:
            return None
        try:
            loaded = json.loads(content)
        except (json.JSONDecodeError, RecursionError) as error:
            self.problem(relative, error)
            return None
        if not isinstance(loaded, dict):
            self.problem(relative, "is not a JSON object")
            return None
        return loaded

    def text(self, relative: str) -> str | None:
        path = self.path / relative
        try:
            self._refuse_outside(path)
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            self.problem(relative, error)
            return None

    def lines(self, relative: str) -> Iterator[Record]:
        """The JSON objects of a log. A torn last line is normal while a run is going; others are problems."""
        try:
            self._refuse_outside(self.path / relative)
            file = (self.path / relative).open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem(relative, error)
            return
        with file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    record = json.loads(line)
                except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
                    self.problem(f"{relative}, line {number}", error)
                    continue
                if isinstance(record, dict):
                    yield record

    def files(self, folder: str, suffix: str) -> list[Path]:
        """Plain files of a folder. Links are left out: a page shows what is in the run directory only."""
        base = self.path / folder
        if not base.is_dir() or base.resolve() != self.path.resolve() / folder:
            return []
        return sorted(p for p in base.glob(f"*{suffix}") if p.is_file() and not p.is_symlink())

    def last_line(self, relative: str) -> Record | None:
        """The last complete object of a log, read from the file's end."""
        try:
            self._refuse_outside(self.path / relative)
            with (self.path / relative).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                lines = file.read().rpartition(b"\n")[0].splitlines()
            record = json.loads(lines[-1])
        except (OSError, IndexError, ValueError, RecursionError):
            return None
        return record if isinstance(record, dict) else None

    def problem(self, what: str, error: Any) -> None:
        """Remember something to be shown at the top of the page."""
        message = f"{what}: {' '.join(str(error).split())}"
        if message not in self.problems and len(self.problems) < 50:
            self.problems.append(message)

    def _refuse_outside(self, path: Path) -> None:
        if self._inside is not None and not path.resolve().is_relative_to(self._inside):
            raise PermissionError("a link leads out of the runs folder, so it is not read")


def first(mapping: Any, *keys: str, default: Any = None) -> Any:
    """`mapping[a][b][c]` where all of it is there, else `default`."""
    for key in keys:
        if not isinstance(mapping, dict) or key not in mapping:
            return default
        mapping = mapping[key]
    return mapping


def flatten(mapping: Record, prefix: str = "", leaf: Callable[[Any], bool] = lambda _: False) -> Record:
    """Nested settings as dotted names; lists, and what `leaf` says, stay values."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and not leaf(value):
            flat |= flatten(value, f"{name}.", leaf)
        else:
            flat[name] = value
    return flat
