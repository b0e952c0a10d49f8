"""The way from the command to figure A that CONTRIBUTING.md lists is the one the code takes."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT

_ROW = re.compile(r"^\| \d+ \| `(src/[^`]+)` \| `(\w+)` \|", re.MULTILINE)


def test_every_function_on_the_way_to_figure_a_is_where_the_list_says() -> None:
    way = _ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert 0 < len(way) <= 25
    for file, function in way:
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {function}"
