"""Every measured figure and table of the docs names its command, and what it measured is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.site import measurements as site
from tests.docs.markdown import ROOT

MEASURED = site.measurements()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_benchmark_that_a_page_names_is_listed(page: Path) -> None:
    named = set(re.findall(r"python -m (benchmarks\.\w+)", page.read_text(encoding="utf-8")))
    here = str(page.relative_to(ROOT))
    listed = " ".join(entry.command for entry in MEASURED if here in entry.pages)
    assert sorted(name for name in named - {"benchmarks.mixed_text"} if name not in listed) == []


@pytest.mark.parametrize("page", site.RESULTS)
def test_a_page_of_results_says_which_figures_are_of_other_code(page: str) -> None:
    """Fails once code changes that a page measured: run its command, or `measurements.py --declare`."""
    assert site.marked(page)[1] == site.declared(page)
    assert any(page in entry.pages for entry in MEASURED)


def test_the_hash_ignores_words_and_sees_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "TOP", tmp_path)

    def hashed(text: str) -> str:
        (tmp_path / "a.py").write_text(text)
        return site.code_hash(["a.py"])

    base = hashed('"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n')
    assert hashed("def f(x):  # other words\n    return (x + 1)\n") == base
    assert hashed("def f(x):\n    return x + 2\n") != base
