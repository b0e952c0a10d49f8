"""The reference pages are what the code says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from homeostat.cli.reference import pages

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="signatures read differently in other versions of Python"
)
def test_the_pages_are_up_to_date_and_complete() -> None:
    found = pages()
    stale = [name for name, text in found.items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert stale == [], "write them again: python -m homeostat.cli.reference"
    assert {f"reference/{path.name}" for path in (DOCS / "reference").glob("*.md")} == set(found) - {
        "glossary.md"
    }


def test_every_command_and_every_public_name_has_its_place() -> None:
    import cachemedicpp
    import skyt

    found = pages()
    for command in ("homeostat demo", "homeostat cache run", "homeostat code keys add"):
        assert f"### `{command}`" in found["reference/cli.md"]
    for module in (cachemedicpp, skyt):
        for name in module.__all__:
            assert f"### `{name}`" in found[f"reference/{module.__name__}.md"]
