"""Single figures of a report: each as an interactive page of its own, and as PNG where there is a browser."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.report.build import Report
from homeostat.report.page import render

DRAWN = ("answers", "chart", "heatmap", "dots", "shares")  # the kinds of blocks that are pictures
_SCALE = 2.0  # pixels of a PNG per pixel of the page


def write_figures(report: Report, folder: Path, *, png: bool = False) -> list[Path]:
    """Write every picture of a report to `folder`, as HTML and, if wanted, as PNG; returns the paths."""
    pages: list[Path] = []
    for section in report.data["sections"]:
        for block in section["blocks"]:
            if block["kind"] not in DRAWN:
                continue
            alone = {**section, "lead": "", "blocks": [block]}
            data = {**report.data, "verdicts": [], "problems": [], "sections": [alone]}
            pages.append(folder / f"{block['id']}.html")
            atomic.write_text(pages[-1], render(f"{report.title}: {section['title']}", data, {}))
    return [*pages, *(_photographed(pages) if png else [])]


def _photographed(pages: Sequence[Path]) -> list[Path]:
    """The figure of each page as PNG, taken by headless Chromium; the pages load nothing from anywhere."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("--png needs playwright: pip install 'homeostat-llm[browser]'") from None
    if chromium is None:
        raise UserError("--png needs Chromium or Chrome: install one (Debian: apt-get install chromium)")
    taken = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": 1280, "height": 2400}, device_scale_factor=_SCALE)
        for page in pages:
            view.goto(page.resolve().as_uri())
            view.wait_for_selector("html[data-ready=yes]")
            picture = view.locator("main section").last.screenshot(type="png")
            atomic.write_bytes(page.with_suffix(".png"), picture)
            taken.append(page.with_suffix(".png"))
        browser.close()
    return taken
