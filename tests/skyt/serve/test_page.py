"""The page in a real browser: it shows what is measured, and hostile text stays text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

from skyt.serve.database.keys import add_key

playwright = pytest.importorskip("playwright.sync_api", reason="the `serve-test` extra is not installed")

HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    '<a href="javascript:window.hacked=3">x</a> ${window.hacked = 4} \u202e \x00'
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium here: `apt-get install chromium`")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_the_page_shows_metrics_and_samples_and_hostile_text_stays_text(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, _), httpx.Client(base_url=url, timeout=30) as client:
        for text in (fenced(GCD_WRONG), fenced(GCD), fenced(GCD_RENAMED), HOSTILE):
            upstream.plan.append(text)
            client.post("/v1/chat/completions", json={"model": "skyt/gcd", "messages": []})
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]")
        row = page.locator("tr[data-contract=gcd]")
        assert "0.500" in row.inner_text()  # two of four are canonical after repair
        page.wait_for_selector("#history svg", timeout=30_000)
        for details in page.locator("details.sample").all():
            details.locator("summary").click()
        assert page.locator("details.sample").count() == 4
        page.wait_for_function("() => document.body.innerText.includes('window.hacked = 1')")
        assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
        assert page.evaluate("window.hacked === undefined")
        assert problems == []
        if folder := os.environ.get("HOMEOSTAT_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "serve.png", full_page=True)
            page.emulate_media(color_scheme="dark")
            page.screenshot(path=Path(folder) / "serve-dark.png")
        page.close()


def test_the_page_asks_for_a_key_where_the_service_wants_one(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        key = add_key(service.store, "me", ["gcd"])
        for name in ("gcd", "is_prime"):
            upstream.plan.append(fenced(GCD))
            body = {"model": f"skyt/{name}", "messages": []}
            everyone = add_key(service.store, name)
            client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {everyone}"})
        page = browser.new_page()
        page.goto(url)
        page.fill("#key", "wrong")
        page.click("button[type=submit]")
        page.fill("#key", key)
        page.click("button[type=submit]")
        page.wait_for_selector("tr[data-contract=gcd]")
        assert page.locator("tr[data-contract]").count() == 1
        page.close()
    policy = client_headers(start)
    assert "script-src 'self'" in policy and "unsafe" not in policy


def client_headers(start: Callable[..., Any]) -> str:
    with start() as (url, _):
        return httpx.get(url).headers["content-security-policy"]
