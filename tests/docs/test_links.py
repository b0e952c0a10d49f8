"""Links inside the repository lead to pages and headings that exist, and the navigation has every page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs import markdown
from tests.docs.markdown import ROOT, broken_links, pages

ALL = [*pages(), "CHANGELOG.md", "SECURITY.md"]


@pytest.mark.parametrize("page", ALL)
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(page) == [], f"{page}: links to nothing"


def test_a_missing_page_and_a_missing_heading_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown, "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Title\n\n## What it costs: `x` and more\n")
    (tmp_path / "page.md").write_text(
        "# Page\n[a](other.md#what-it-costs-x-and-more) [b](#page) [c](https://example.org/#no)\n"
        "[d](gone.md) [e](other.md#gone) [f](#gone)\n\n```text\n[g](gone.md)\n```\n"
    )
    assert broken_links("page.md") == ["gone.md", "other.md#gone", "#gone"]


def test_every_page_is_reached_from_the_navigation() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    top = {"index.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
    found = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = list(_leaves(config["nav"]))
    assert set(listed) - top == found - {"README.md"}, "add the page to `nav` in mkdocs.yml"
    assert len(listed) == len(set(listed)) and top <= set(listed)


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [leaf for part in parts for leaf in _leaves(part)]
