"""Writing files so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success fsync it and rename it into place.

    On an error nothing is left behind and `path` keeps its old content.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o666 & ~_umask())
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as aside:
        aside.write_bytes(data)


def utf8(text: str) -> bytes:
    """Strict UTF-8 for any text, also with lone surrogates, which a model may emit: they become `\\udXXX`.

    Inside JSON that is their escape, so records read back as they were; elsewhere it is what the reader sees.
    """
    return text.encode("utf-8", "backslashreplace")


def write_text(path: Path, text: str) -> None:
    write_bytes(path, utf8(text))


def write_json(path: Path, value: Any) -> None:
    """Strict JSON (no NaN or Infinity), indented, keys in the given order, ending in a newline."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sync_directory(directory: Path) -> None:
    """Make a rename in `directory` survive a power cut, where the platform allows it."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:  # a platform that cannot open directories
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
