"""SGLang's storage interface: through the guard a page is the one that was stored, or a miss."""

from __future__ import annotations

import pytest
from tests.cachemedicpp.engines.real.conftest import Scenario

pytestmark = pytest.mark.timeout(300)
SCRIPT = "sglang_scenarios.py"


def test_everything_that_the_file_backend_does_it_does_through_the_guard(scenario: Scenario) -> None:
    found = scenario("interface", SCRIPT)
    assert found["guard"] == found["plain"]
    assert found["guard"]["same"] == [True, True, True, False] and found["guard"]["mamba"]


def test_damage_to_pages_and_keys_is_always_a_miss_and_the_page_can_be_stored_anew(
    scenario: Scenario,
) -> None:
    found = scenario("damage", SCRIPT)
    assert len(found) >= 12
    for kind, row in found.items():
        assert row["guard"] == "miss" and not row["exists"], kind
        assert row["mended"] == ["right", "right"], f"{kind}: not by this process, or not by the next one"
    assert sum(row["plain"] == "wrong" for row in found.values()) >= 9, "the damage was none"


def test_pages_that_are_copied_straight_to_the_hosts_memory_are_verified_there(scenario: Scenario) -> None:
    found = scenario("in_place", SCRIPT)
    assert found["get"] == [True, True, True, False]
    assert found["damaged"] == [True, False, True] and found["exists"] == 1
    assert found["mended"] == [[True], [True, True, True]]
    assert "interface_v1" in found["said"][0] and "did you mean 'file'" in found["said"][1]


def test_two_writers_that_are_killed_leave_only_whole_pages(scenario: Scenario) -> None:
    found = scenario("killed", SCRIPT)
    assert found["outcomes"]["right"] >= 40 and found["outcomes"]["miss"] == 2
    assert "wrong" not in found["outcomes"] and found["bad"] == 0
