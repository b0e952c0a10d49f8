"""The one exception that means "the user can fix this"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in the input or the surroundings: shown as one line, exit code 2, never a traceback.

    The message names the thing, the value that was given, and what to do about it.
    """

    exit_code = 2


def unreadable(path: object, error: OSError | UnicodeDecodeError) -> str:
    """Why a text file cannot be read, in plain words."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return (
            f"{path} is not UTF-8 text (byte 0x{byte:02x} at position {error.start}): save it again as UTF-8"
        )
    return f"cannot read {path}: {error.strerror or error}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known ones, or all of them when none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.55)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "known: " + ", ".join(names) if names else "none is known"
