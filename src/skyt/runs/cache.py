"""Verdicts and repairs kept between runs, so that the same outputs are not judged and repaired twice.

What is kept is a function of the program, the contract, the settings, the Python that ran it and the code of
this package: all of them are in its key, so a changed rule or oracle finds nothing. One SQLite file in the
user's cache folder; `HOMEOSTAT_KEPT` names another folder, and `HOMEOSTAT_KEPT=off` keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from skyt.contracts.drawing.cache import drawn_with

VARIABLE = "HOMEOSTAT_KEPT"
_AT_ONCE = 500  # keys in one question


class ResultCache:
    """JSON values by key. Where the file cannot be used, nothing is found and nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._database: sqlite3.Connection | None = None
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(folder / "kept.sqlite", timeout=30, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
            )
        except (OSError, sqlite3.Error) as error:
            self._database = None
            print(f"nothing is kept for the next run: {folder}: {error}", file=sys.stderr)

    @classmethod
    def from_environment(cls) -> ResultCache:
        chosen = os.environ.get(VARIABLE)
        if chosen == "off":
            return cls(None)
        return cls(Path(chosen) if chosen else Path(platformdirs.user_cache_dir("homeostat")) / "kept")

    def find(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those keys that are known."""
        found: dict[str, Any] = {}
        wanted = list(keys)
        if self._database is None:
            return found
        try:
            for at in range(0, len(wanted), _AT_ONCE):
                some = wanted[at : at + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, value FROM kept WHERE key IN ({marks})"  # noqa: S608 - question marks
                found |= {key: json.loads(value) for key, value in self._database.execute(query, some)}
        except (sqlite3.Error, ValueError):
            return found
        return found

    def keep(self, values: Mapping[str, Any]) -> None:
        if self._database is None or not values:
            return
        rows = [(key, json.dumps(value, separators=(",", ":"))) for key, value in values.items()]
        try:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            print(f"a result is not kept for the next run: {error}", file=sys.stderr)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def key(kind: str, *parts: object) -> str:
    """The key of a result: what it is, what it depends on, and the code that made it."""
    text = json.dumps([kind, code_version(), drawn_with(), sys.version_info[:3], parts], ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of this package's source: a result of other code is another result."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        if "serve" not in path.relative_to(folder).parts:
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
