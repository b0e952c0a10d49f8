"""The ways that CONTRIBUTING.md lists are those that the code takes."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT

_ROW = re.compile(r"^\| (\d+) \| `(src/[^`]+)` \| `(\w+)` \|", re.MULTILINE)
_MOST = {"homeostat cache run": 25, "homeostat code run": 10, "homeostat code serve": 10}


def test_every_function_on_a_listed_way_is_where_the_list_says() -> None:
    _, *ways = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("The way ")
    found = {}
    for way in ways:
        [command] = [name for name in _MOST if f"`{name}`" in way.partition(chr(10))[0]]
        hops = _ROW.findall(way)
        assert [int(number) for number, _, _ in hops] == list(range(1, len(hops) + 1))
        assert 0 < len(hops) <= _MOST[command], command
        for _, file, function in hops:
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), (
                f"{file} has no {function}"
            )
        found[command] = len(hops)
    assert found.keys() == _MOST.keys()
