"""Samples remembered between runs, so that the same programs are not judged and repaired twice.

What is remembered depends on program, canon, contract, settings, the Python that ran it and the code of this
package. All of them are in its key, so a changed rule or oracle finds nothing. It is one SQLite
file in the user's cache folder; `HOMEOSTAT_KEPT` names another folder, and with `HOMEOSTAT_KEPT=off` nothing
outlives the process.
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


class Memory:
    """JSON values by key. Where the file cannot be used, they are forgotten with the process."""

    def __init__(self, folder: Path | None) -> None:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._database = _opened(":memory:" if folder is None else str(folder / "samples.sqlite"))
        except (OSError, sqlite3.Error) as error:
            print(f"nothing is remembered for the next run: {folder}: {error}", file=sys.stderr)
            self._database = _opened(":memory:")

    @classmethod
    def from_environment(cls) -> Memory:
        chosen = os.environ.get(VARIABLE)
        if chosen == "off":
            return cls(None)
        return cls(Path(chosen) if chosen else Path(platformdirs.user_cache_dir("homeostat")) / "kept")

    def find(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those keys that are known."""
        found: dict[str, Any] = {}
        wanted = list(dict.fromkeys(keys))
        try:
            for at in range(0, len(wanted), _AT_ONCE):
                some = wanted[at : at + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, value FROM samples WHERE key IN ({marks})"  # noqa: S608 - question marks
                found |= {key: json.loads(value) for key, value in self._database.execute(query, some)}
        except (sqlite3.Error, ValueError) as error:
            print(f"what was remembered cannot be read: {error}", file=sys.stderr)
        return found

    def keep(self, values: Mapping[str, Any]) -> None:
        rows = [(key, json.dumps(value, separators=(",", ":"))) for key, value in values.items()]
        try:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            print(f"a result is not remembered for the next run: {error}", file=sys.stderr)

    def close(self) -> None:
        self._database.close()


def _opened(where: str) -> sqlite3.Connection:
    database = sqlite3.connect(where, timeout=30, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE IF NOT EXISTS samples (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    return database


def key(kind: str, *parts: object) -> str:
    """The key of a result: what it is, what it depends on, and the code that made it."""
    text = json.dumps([kind, code_version(), drawn_with(), sys.version_info[:3], parts], ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of this package's source: a result of other code is another result."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[2]
    for path in sorted(folder.rglob("*.py")):
        if "serve" not in path.relative_to(folder).parts:
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
