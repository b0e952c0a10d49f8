"""A frame opens under the name and the facts it was stored with, and only if every byte is what it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemedicpp.engines.frame import HEADER, DamagedError, opened, seal

FACTS = {"model": "m", "numbers": "bfloat16", "layout": [2, 4]}


@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(0, 7))
def test_any_flipped_bit_is_found(content: bytes, place: int, bit: int) -> None:
    frame = bytearray(seal("a", FACTS, content) + content)
    assert bytes(opened("a", FACTS, frame + b"padding", len(content))) == content
    frame[place % len(frame)] ^= 1 << bit
    with pytest.raises(DamagedError):
        opened("a", FACTS, frame, len(content))


@pytest.mark.parametrize(
    ("name", "facts", "says"),
    [
        ("b", FACTS, "under this name"),
        ("a", {**FACTS, "numbers": "float16"}, "another model, type"),
        ("a", {**FACTS, "layout": [4, 2]}, "another model, type"),
    ],
)
def test_another_name_type_or_layout_is_refused(name: str, facts: dict[str, object], says: str) -> None:
    frame = seal("a", FACTS, b"content") + b"content"
    with pytest.raises(DamagedError, match=says):
        opened(name, facts, frame, 7)
    assert bytes(opened("a", dict(reversed(FACTS.items())), frame, 7)) == b"content"


def test_what_is_cut_off_or_was_stored_otherwise_is_told_apart() -> None:
    frame = seal("a", FACTS, b"content") + b"content"
    with pytest.raises(DamagedError, match="cut off"):
        opened("a", FACTS, frame[: HEADER + 3], 7)
    with pytest.raises(DamagedError, match="without a fingerprint"):
        opened("a", FACTS, b"HGK1" + frame[4:], 7)
    assert bytes(opened("a", None, frame, 7)) == b"content", "of whatever model and layout"
