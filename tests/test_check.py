"""What `make check` runs: tests of the rooms that changed, without the slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.changed import relevant

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("src/skyt/text/distance.py", ["tests/skyt/text"]),
        ("src/homeostat/report/sections/cache.py", ["tests/homeostat/report"]),
        ("src/skyt/a_new_room/module.py", ["tests/skyt"]),
        ("tests/skyt/text/test_distance.py", ["tests/skyt/text/test_distance.py"]),
        ("tests/skyt/text/test_removed.py", []),
        ("README.md", []),
    ],
)
def test_a_change_leads_to_the_relevant_its_room(changed: str, expected: list[str]) -> None:
    assert list(relevant([changed], ROOT)) == expected


def test_a_test_that_needs_the_real_model_is_slow(
    request: pytest.FixtureRequest,
) -> None:
    slow = {item.nodeid for item in request.session.items if item.get_closest_marker("slow")}
    needing = {item.nodeid for item in request.session.items if "default_model" in item.fixturenames}
    assert needing <= slow
    assert request.node.nodeid not in slow
