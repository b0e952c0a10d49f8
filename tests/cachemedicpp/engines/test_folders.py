"""A folder of chunks, pages or slots is checked without the engine that filled it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachemedicpp.engines.folders import checked
from cachemedicpp.engines.frame import seal
from cachemedicpp.engines.llamacpp import SlotFolder

FILES = {
    "lmcache": ("org-SEP-model@0x00000001@0@ab12.data", "org/model@0x00000001@0@ab12@"),
    "lmcache, salted": ("model@0x00000001@0@ab12@alice.data", "model@0x00000001@0@ab12@alice"),
    "sglang": ("ab12-0011aabb.1_some_model_0_1.bin", "ab12-0011aabb.1"),
}


@pytest.mark.parametrize("kind", FILES)
def test_any_flipped_bit_or_other_name_is_found(kind: str, tmp_path: Path) -> None:
    file, name = FILES[kind]
    good = seal(name, {"model": "m"}, b"numbers") + b"numbers"
    path = tmp_path / "sub" / file
    path.parent.mkdir()
    path.write_bytes(good)
    assert list(checked(tmp_path)) == [(path, "")]
    for place in range(len(good)):
        harmed = bytearray(good)
        harmed[place] ^= 4
        path.write_bytes(harmed)
        assert [bool(why) for _, why in checked(tmp_path)] == [True]
    for harmed in (good[:-1], good[:20], b""):
        path.write_bytes(harmed)
        assert [bool(why) for _, why in checked(tmp_path)] == [True]
    path.write_bytes(good)
    path.rename(path.with_name(file.replace("ab12", "ab13")))
    assert [bool(why) for _, why in checked(tmp_path)] == [True]


def test_slots_are_checked_by_the_fingerprint_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"slot")
    assert [bool(why) for _, why in checked(tmp_path)] == [True]
    SlotFolder(tmp_path).saved("a.bin", {})
    assert [why for _, why in checked(tmp_path)] == [""]
    (tmp_path / "a.bin").write_bytes(b"slow")
    assert [bool(why) for _, why in checked(tmp_path)] == [True]
