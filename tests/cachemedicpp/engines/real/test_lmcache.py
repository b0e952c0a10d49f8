"""A damaged chunk in LMCache's store is a miss with the guard's serde, and a wrong answer without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cachemedicpp.engines.real.conftest import Scenario

pytestmark = pytest.mark.timeout(600)
SCRIPT = "lmcache_scenarios.py"


def damage(folder: Path, share: float = 0.02) -> None:
    """Overwrite a stretch in the middle of every chunk of the folder."""
    for path in folder.rglob("*.data"):
        data = bytearray(path.read_bytes())
        middle, length = len(data) // 2, int(len(data) * share)
        data[middle : middle + length] = bytes(255 - byte for byte in data[middle : middle + length])
        path.write_bytes(data)


def test_a_damaged_chunk_is_a_miss_with_the_serde_and_a_wrong_answer_without(
    scenario: Scenario, tmp_path: Path
) -> None:
    first = scenario("fill", SCRIPT)
    assert first["cached"] == [0, 0] and first["guarded"] > 4 and first["plain"] > 4
    whole = scenario("guarded", SCRIPT)
    assert min(whole["cached"]) >= 128, "nothing was loaded"
    assert whole["answers"] == first["answers"] and not whole["log"]
    damage(tmp_path / "guarded")
    damage(tmp_path / "plain")
    with_serde = scenario("guarded", SCRIPT)
    assert with_serde["answers"] == first["answers"] and with_serde["log"]
    assert max(with_serde["cached"]) == 0
    without = scenario("plain", SCRIPT)
    assert min(without["cached"]) >= 128, "nothing was loaded"
    assert without["answers"] != first["answers"]


def test_what_a_wrapped_connector_loads_is_verified(scenario: Scenario) -> None:
    found = scenario("wrapped", SCRIPT)
    first, again, spoiled, after = (found[name] for name in ("first", "again", "spoiled", "after"))
    assert first["loaded"] == 0 and min(r["loaded"] for r in (again, spoiled, after)) > 0, (
        "nothing was loaded"
    )
    assert again["unknown"] == again["bad"] == after["bad"] == 0
    # of the prompt that was loaded whole, the last block is computed again, damaged or not
    assert again["failed_steps"] == after["failed_steps"] == found["rewritten"] == 1
    assert len(found["damaged"]) > 10 and min(found["damaged"]) > 0
    assert spoiled["bad"] == len(found["damaged"]) - found["rewritten"]
    assert first["answers"] == again["answers"] == spoiled["answers"] == after["answers"]
