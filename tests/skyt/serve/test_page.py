"""The page in a real browser: it shows what is measured, and hostile text stays text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
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
            client.post(
                "/v1/chat/completions",
                json={"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]},
            )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]")
        row = page.locator("tr[data-contract=gcd]")
        assert "50.0%" in row.inner_text()  # two of four are canonical after repair
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


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_service_without_samples_gives_a_command_to_paste_and_the_contracts_to_try(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, _):
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]")
        assert page.locator(".known .link").all_inner_texts() == ["gcd", "is_prime"]
        page.locator(".known .link", has_text="is_prime").click()
        upstream.plan.append(fenced(GCD))
        command = page.locator(".command").inner_text()
        assert command.startswith(f"curl {url}/v1/chat/completions") and "skyt/is_prime" in command
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert json.loads(done.stdout)["choices"]
        page.reload()
        page.wait_for_selector("tr[data-contract=is_prime]")
        assert page.locator("#start").locator("visible=true").count() == 0
        page.close()


def test_samples_have_the_badges_and_filters_of_a_report_and_rules_explain_themselves(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, _), httpx.Client(base_url=url, timeout=30) as client:
        for text in (fenced(GCD), fenced(GCD_RENAMED), fenced(GCD_WRONG)):
            upstream.plan.append(text)
            question = [{"role": "user", "content": "?"}]
            client.post("/v1/chat/completions", json={"model": "skyt/gcd", "messages": question})
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector(".filters.samples")
        assert sorted(page.locator("details.sample .badge").all_inner_texts()) == [
            "identical",
            "none",
            "rewritten",
        ]
        page.select_option("select[name=outcome]", "rescued")
        shown = page.locator("details.sample").locator("visible=true")
        assert shown.count() == 1 and shown.locator(".badge").inner_text() == "rewritten"
        shown.locator("summary").click()
        shown.locator(".term").first.click()
        assert "Keeps behaviour because" in page.locator(".explained").inner_text()
        page.close()


def test_the_page_asks_for_a_key_where_the_service_wants_one(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        key = add_key(service.store, "me", ["gcd"])
        for name in ("gcd", "is_prime"):
            upstream.plan.append(fenced(GCD))
            body = {"model": f"skyt/{name}", "messages": [{"role": "user", "content": "?"}]}
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
