"""Bytes with a fingerprint that is bound to what they are: what a store elsewhere holds.

`HGK2`, 8 bytes over the facts, 16 bytes over name, facts and content, the content. The name is what the
content is stored under; the facts are what else tells it from another of the same size: model, type of
numbers, layout, version. A hash of bytes (XXH3, at memory speed), not the guard's sums: whoever stores these
has no tensors. It finds accidents; it is no defence against somebody who forges a frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from mmap import mmap
from typing import Any

import xxhash

MAGIC = b"HGK2"
_FACTS, _DIGEST = 8, 16
HEADER = len(MAGIC) + _FACTS + _DIGEST
Bytes = bytes | bytearray | memoryview | mmap


class DamagedError(ValueError):
    """A frame that does not hold what was stored under this name."""


def mark(facts: Mapping[str, Any]) -> bytes:
    """8 bytes that stand for facts, whatever their order."""
    return bytes(xxhash.xxh3_64(json.dumps(facts, sort_keys=True, default=str).encode()).digest())


def seal(name: str, facts: Mapping[str, Any], content: Bytes) -> bytes:
    """The header for `content`."""
    marked = mark(facts)
    return MAGIC + marked + _digest(name, marked, content)


def opened(name: str, facts: Mapping[str, Any] | None, frame: Bytes, length: int) -> memoryview:
    """The content of a frame, `length` bytes; the frame may be padded at its end. Without `facts` the frame
    may be of any model and layout, as long as it is what was stored."""
    view = memoryview(frame)
    if len(view) < HEADER + length:
        raise DamagedError(f"it is cut off: {len(view)} bytes instead of {HEADER + length}")
    content = view[HEADER : HEADER + length]
    check(name, facts, view[:HEADER], content)
    return content


def check(name: str, facts: Mapping[str, Any] | None, header: Bytes, content: Bytes) -> None:
    """Raise `DamagedError` unless this is the header that `content` had when it was stored."""
    header = bytes(header)
    magic, marked, digest = header[: len(MAGIC)], header[len(MAGIC) : -_DIGEST], header[-_DIGEST:]
    if magic != MAGIC or len(header) != HEADER:
        raise DamagedError("it was stored without a fingerprint, or by another version")
    if digest != _digest(name, marked, content):
        raise DamagedError("its content is not what was stored under this name")
    if facts is not None and marked != mark(facts):
        raise DamagedError("it is of another model, type of numbers, layout or version")


def _digest(name: str, marked: bytes, content: Bytes) -> bytes:
    made = xxhash.xxh3_128(len(name.encode()).to_bytes(4, "little") + name.encode() + marked)
    made.update(content)
    return bytes(made.digest())
