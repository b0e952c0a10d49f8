"""A folder of canons. `canon/<prompt_id>.json` is written once and replaced only with its archiving.

The file appears by link(2), complete or not at all, so of any number of racing processes exactly one wins and
all of them read the same file. Re-anchoring and `canon set` move the old file to `canon/archive/`.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import filelock

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.records import read_record, utc_now, validate
from skyt.canon.history import Event, append_event, read_events
from skyt.canon.record import Canon, CanonImmutabilityError, CanonVersionError, Versions, check_integrity


class Shelf(Protocol):
    """What a folder and a database have in common where canons are managed."""

    def prompts(self) -> list[str]:
        """Prompts that have a canon."""

    def read(self, prompt_id: str) -> Canon | None:
        """The canon, of whatever version."""

    def archived(self, prompt_id: str) -> list[Canon]:
        """Earlier canons, oldest first."""

    def events(self, prompt_id: str) -> list[Event]:
        """What people did with the prompt's canons, oldest first."""

    def note(self, event: Event) -> None:
        """Put an act on record that changes no canon."""

    def replace(self, canon: Canon, event: Event) -> None:
        """Archive the canon there is, if any, and fix this one in its place."""


def read_canon(path: Path) -> Canon:
    """A canon's file, checked: its schema, its signature and the hash of its contract."""
    canon = Canon(**read_record(path, "canon"))
    check_integrity(canon, path)
    if canon.prompt_id != path.stem:
        raise UserError(f"damaged canon {path}: it is the canon of {canon.prompt_id!r}, not of {path.stem!r}")
    return canon


class CanonStore:
    """A folder of canons."""

    def __init__(self, folder: Path, versions: Versions) -> None:
        self.folder = Path(folder)
        self.versions = versions

    def path(self, prompt_id: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", prompt_id):
            raise UserError(f"prompt id {prompt_id!r}: use letters, digits, '_', '-' and '.' only")
        return self.folder / f"{prompt_id}.json"

    def get(self, prompt_id: str) -> Canon | None:
        """The canon, or None before there is one. A canon of other versions is refused."""
        canon = self.read(prompt_id)
        if canon is not None:
            self._check_versions(canon, self.path(prompt_id))
        return canon

    def read(self, prompt_id: str) -> Canon | None:
        path = self.path(prompt_id)
        return read_canon(path) if path.exists() else None

    def prompts(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json")) if self.folder.is_dir() else []

    def archived(self, prompt_id: str) -> list[Canon]:
        self.path(prompt_id)
        paths = (self.folder / "archive").glob(f"{prompt_id}.*.json")
        found = [Canon(**read_record(path, "canon")) for path in sorted(paths, key=_archived_order)]
        return [canon for canon in found if canon.prompt_id == prompt_id]

    def events(self, prompt_id: str) -> list[Event]:
        return [event for event in read_events(self.folder) if event.prompt_id == prompt_id]

    def note(self, event: Event) -> None:
        append_event(self.folder, event)

    def replace(self, canon: Canon, event: Event) -> None:
        """At no moment is there no canon; of two that replace at once the later archives the earlier."""
        path, record = self.path(canon.prompt_id), asdict(canon)
        validate(record, "canon")
        self.folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self.folder / ".managing.lock"):
            if not self._link(canon):
                self._keep(canon.prompt_id)
                atomic.write_json(path, record)
            self.note(event)

    def fix(self, canon: Canon) -> Canon:
        """Fix a prompt's canon if it has none; in any case return the one that is fixed."""
        if canon.versions != self.versions:
            raise CanonVersionError(f"canon {canon.prompt_id!r} has {canon.versions}, not {self.versions}")
        self._link(canon)
        fixed = self.get(canon.prompt_id)
        if fixed is None:
            raise UserError(
                f"{self.path(canon.prompt_id)} disappeared while it was being fixed: "
                f"is another process re-anchoring?"
            )
        return fixed

    def set(self, canon: Canon) -> None:
        """Fix a prompt's canon, or raise `CanonImmutabilityError` if another one is fixed."""
        fixed = self.fix(canon)
        if fixed.canon_signature != canon.canon_signature:
            raise CanonImmutabilityError(
                f"the canon of {canon.prompt_id!r} was fixed at {fixed.fixed_at_timestamp} "
                f"({fixed.canon_signature[:12]}) and cannot become {canon.canon_signature[:12]}: "
                f"re-anchor with --re-anchor, which archives the old one, or use another --out"
            )

    def archive(self, prompt_id: str) -> Path | None:
        """Re-anchoring, first half: move the canon aside; the next compliant output fixes a new one."""
        path = self.path(prompt_id)
        if not path.exists():
            return None
        target = self._keep(prompt_id)
        path.unlink()
        atomic.sync_directory(self.folder)
        return target

    def _keep(self, prompt_id: str) -> Path:
        """A second name for the canon's file, in the archive."""
        path, folder = self.path(prompt_id), self.folder / "archive"
        folder.mkdir(exist_ok=True)
        stamp = re.sub(r"[^0-9T]", "", utc_now())
        for number in range(1_000_000):
            target = folder / f"{prompt_id}.{stamp}.{number}.json"
            try:
                os.link(path, target)  # never overwrites
            except FileExistsError:
                continue
            atomic.sync_directory(folder)
            return target
        raise UserError(f"{folder} is full of archived canons of {prompt_id!r}")

    def _link(self, canon: Canon) -> bool:
        """Write the file aside, then link it into place. False if there is one; never half-written."""
        path = self.path(canon.prompt_id)
        record = asdict(canon)
        validate(record, "canon")
        if path.exists():
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fixing-", dir=self.folder) as aside:
                whole = Path(aside) / path.name
                atomic.write_json(whole, record)
                try:
                    os.link(whole, path)
                except FileExistsError:
                    return False
            atomic.sync_directory(self.folder)
            return True
        except OSError as error:
            raise UserError(f"cannot fix the canon {path}: {error.strerror or error}") from error

    def _check_versions(self, canon: Canon, path: Path) -> None:
        if canon.versions == self.versions:
            return
        raise CanonVersionError(
            f"the canon {path} was made with normalisation {canon.normalization_version} and oracle "
            f"{canon.oracle_version}, this program has {self.versions.normalization_version} and "
            f"{self.versions.oracle_version}: distances would not compare; run again with --re-anchor "
            f"(the old canon is archived), have it judged anew with `homeostat code canon approve`, or use a "
            f"new --out"
        )


def _archived_order(path: Path) -> tuple[str, int]:
    """`<prompt>.<time>.<number>.json` by time and number."""
    _, stamp, number = path.stem.rsplit(".", 2)
    return stamp, int(number)
