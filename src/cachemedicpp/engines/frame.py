"""Bytes with their fingerprint, bound to the name they are stored under: what a store elsewhere holds.

`HGK1`, 16 bytes of BLAKE2b over the name and the content, the content. A hash of bytes, not the guard's
sums: whoever stores these has no tensors, and a frame is read once from a disk or a network that is slower
than the hash.
"""

from __future__ import annotations

import hashlib

MAGIC = b"HGK1"
_DIGEST = 16
HEADER = len(MAGIC) + _DIGEST


class DamagedError(ValueError):
    """A frame that does not hold what was stored under this name."""


def seal(name: bytes, content: bytes | memoryview) -> bytes:
    """The header for `content` stored under `name`."""
    return MAGIC + _digest(name, content)


def opened(name: bytes, frame: bytes | memoryview, length: int) -> memoryview:
    """The content of a frame, `length` bytes; the frame may be padded at its end."""
    view = memoryview(frame)
    if len(view) < HEADER + length or bytes(view[: len(MAGIC)]) != MAGIC:
        raise DamagedError("it is cut off, or was stored without a fingerprint")
    content = view[HEADER : HEADER + length]
    if bytes(view[len(MAGIC) : HEADER]) != _digest(name, content):
        raise DamagedError("its content is not what was stored, or was stored under another name")
    return content


def _digest(name: bytes, content: bytes | memoryview) -> bytes:
    made = hashlib.blake2b(len(name).to_bytes(4, "little") + name, digest_size=_DIGEST)
    made.update(content)
    return made.digest()
