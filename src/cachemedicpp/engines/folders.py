"""Every file of a folder that a guarded store filled: is it what was stored under its name?

Knows the file names of LMCache's `fs` adapter, of SGLang's file backend and of llama.cpp's slots. Facts that
only the running engine knows (model, layout) are left to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cachemedicpp.engines.frame import HEADER, MAGIC, DamagedError, check
from cachemedicpp.engines.llamacpp import SUFFIX, SlotFolder
from homeostat.core.errors import UserError

_SLASH = "-SEP-"  # LMCache's replacement for "/" in a model's name


def checked(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files in turn, each with what is wrong with it, or nothing."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".data", ".bin") and path.is_file():
            try:
                _check(path)
            except (DamagedError, OSError) as error:
                yield path, str(error)
            else:
                yield path, ""


def _check(path: Path) -> None:
    if path.with_name(path.name + SUFFIX).exists():
        SlotFolder(path.parent).check(path.name, None)
    else:
        _check_frame(path, memoryview(path.read_bytes()))


def _check_frame(path: Path, data: memoryview) -> None:
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise DamagedError("it was stored without a fingerprint, or its beginning is damaged")
    wrong = DamagedError("it is cut off")
    for name in _names(path):
        try:
            check(name, None, data[:HEADER], data[HEADER:])
        except DamagedError as error:
            wrong = error
        else:
            return
    raise wrong


def _names(path: Path) -> list[str]:
    """What a file may be stored under: LMCache's key, or SGLang's, to which its backend adds the model."""
    parts = path.stem.split("@")
    if len(parts) in (4, 5):
        return ["@".join((parts[0].replace(_SLASH, "/"), *parts[1:4], *(parts[4:] or [""])))]
    pieces = path.stem.split("_")
    return ["_".join(pieces[:count]) for count in range(1, len(pieces) + 1)]
