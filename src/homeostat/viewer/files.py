"""Opening one file below a folder, and never one anywhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote

# What a browser may be given, and as what. Everything textual is plain text: nothing served can run.
TYPES = {
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".json": "text/plain; charset=utf-8",
    ".jsonl": "text/plain; charset=utf-8",
    ".csv": "text/plain; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
}
_MOST = 50_000_000


def read_inside(root: Path, encoded: str) -> tuple[bytes, str]:
    """The bytes and the type of `root/<encoded>`; `LookupError` for what is not a plain file in there.

    Each component is opened from the one before without following links, so that neither `..` in any
    encoding nor a link, even one swapped in at this moment, leads out.
    """
    parts = [unquote(part, errors="strict") for part in encoded.split("/")]
    if any(
        part in ("", ".", "..") or any(c in part for c in "/\\\0") or part.startswith(".") for part in parts
    ):
        raise LookupError(encoded)
    kind = TYPES.get(Path(parts[-1]).suffix)
    if kind is None:
        raise LookupError(encoded)
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    except OSError as error:
        raise LookupError(encoded) from error
    finally:
        os.close(here)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST:
            raise LookupError(encoded)
        return file.read(), kind
