"""Single figures of a report, as pages and as pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.example_runs import code_run

from homeostat.core.errors import UserError
from homeostat.report import build, export, write_figures


def test_every_figure_is_a_self_contained_page_with_that_figure_alone(tmp_path: Path) -> None:
    report = build(code_run(tmp_path / "run"))
    drawn = [b["id"] for s in report.data["sections"] for b in s["blocks"] if b["kind"] in export.DRAWN]
    pages = write_figures(report, tmp_path / "figures")
    assert [page.stem for page in pages] == drawn and len(set(drawn)) == len(drawn) > 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "connect-src 'none'" in text.replace("&#x27;", "'")
        assert sum(f'"id":"{name}"' in text for name in drawn) == 1


def test_a_picture_without_a_browser_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright (homeostat-llm[browser]) is not installed")
    monkeypatch.setattr(export.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="needs Chromium"):
        write_figures(build(code_run(tmp_path / "run")), tmp_path / "figures", png=True)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_pictures_are_png_files(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright (homeostat-llm[browser]) is not installed")
    made = write_figures(build(code_run(tmp_path / "run")), tmp_path / "figures", png=True)
    pictures = [path for path in made if path.suffix == ".png"]
    assert len(pictures) * 2 == len(made)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
