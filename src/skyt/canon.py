"""The canon of a prompt: fixed once by the first compliant output, never changed, valid for its versions.

`canon/<prompt_id>.json` appears by link(2), complete or not at all, so of any number of racing processes
exactly one wins and all of them read the same file. Re-anchoring moves the old file to `canon/archive/`.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.records import read_record, utc_now, validate
from skyt.text.signature import signature


class CanonImmutabilityError(UserError):
    """An attempt to change a canon that is already fixed."""


class CanonVersionError(UserError):
    """A canon made under another normalisation or oracle version."""


@dataclass(frozen=True)
class Versions:
    """What a canon's validity is tied to."""

    normalization_version: str
    oracle_version: str


@dataclass(frozen=True)
class Canon:
    """The reference of a prompt, with everything it rests on. The fields are the file's keys."""

    contract_id: str
    canon_signature: str
    oracle_version: str
    normalization_version: str
    fixed_at_timestamp: str
    prompt_id: str
    model: str | None
    temperature: float | None
    function_signatures: list[str]
    constraints_snapshot: dict[str, Any]
    normalized_code: str
    origin: str  # "first_compliant" or "given"

    @property
    def versions(self) -> Versions:
        return Versions(self.normalization_version, self.oracle_version)


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
        path = self.path(prompt_id)
        if not path.exists():
            return None
        canon = Canon(**read_record(path, "canon"))
        if canon.canon_signature != signature(canon.normalized_code):
            raise UserError(f"damaged canon {path}: its code does not have its signature; restore the file")
        self._check_versions(canon, path)
        return canon

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
        folder = self.folder / "archive"
        folder.mkdir(exist_ok=True)
        stamp = re.sub(r"[^0-9T]", "", utc_now())
        for number in range(1_000_000):
            target = folder / f"{prompt_id}.{stamp}.{number}.json"
            try:
                os.link(path, target)  # never overwrites
            except FileExistsError:
                continue
            path.unlink()
            atomic.sync_directory(self.folder)
            return target
        raise UserError(f"{folder} is full of archived canons of {prompt_id!r}")

    def _link(self, canon: Canon) -> None:
        """Write the file aside, then link it into place: fails if there is one, is never half-written."""
        path = self.path(canon.prompt_id)
        record = asdict(canon)
        validate(record, "canon")
        if path.exists():
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fixing-", dir=self.folder) as aside:
                whole = Path(aside) / path.name
                atomic.write_json(whole, record)
                try:
                    os.link(whole, path)
                except FileExistsError:
                    return
            atomic.sync_directory(self.folder)
        except OSError as error:
            raise UserError(f"cannot fix the canon {path}: {error.strerror or error}") from error

    def _check_versions(self, canon: Canon, path: Path) -> None:
        if canon.versions == self.versions:
            return
        raise CanonVersionError(
            f"the canon {path} was made with normalisation {canon.normalization_version} and oracle "
            f"{canon.oracle_version}, this program has {self.versions.normalization_version} and "
            f"{self.versions.oracle_version}: distances would not compare; run again with --re-anchor "
            f"(the old canon is archived) or with a new --out"
        )
