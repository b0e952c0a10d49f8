"""What people did with canons: who, when and why. Kept beside the canons and never rewritten."""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from homeostat.core.atomic import sync_directory, utf8
from homeostat.core.errors import UserError
from homeostat.core.records import read_jsonl, utc_now, validate

HISTORY = "history.jsonl"


@dataclass(frozen=True)
class Event:
    """One act: a canon was set, approved, archived or trusted."""

    prompt_id: str
    action: str  # "set", "approved", "archived" or "trusted"
    canon_signature: str | None  # what the canon is from then on; none: the next compliant output fixes it
    previous_signature: str | None
    who: str
    why: str
    findings: list[str] = field(default_factory=list)  # what was wrong with the canon and accepted
    timestamp: str = field(default_factory=utc_now)

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        validate(record, "canon_event")
        return record


def whoever() -> str:
    """The name of the user who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"


def read_events(folder: Path) -> list[Event]:
    path = folder / HISTORY
    if not path.exists():
        return []
    return [Event(**record) for record in read_jsonl(path)]


def append_event(folder: Path, event: Event) -> None:
    """Add one line and sync it: an act that is reported as done is on record."""
    path = folder / HISTORY
    line = utf8(json.dumps(event.to_json(), ensure_ascii=False)) + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_directory(folder)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
