"""Report and viewer in a real browser (Chromium, headless): what a reader sees, hears and can do.

Skipped where Chromium or playwright (the `browser` extra) is not installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.example_runs import CANON, OTHER, ExampleConfig, cache_run, code_run, joint_run, sample

from homeostat.core.rundir import open_run
from homeostat.report import write_report
from homeostat.viewer import Viewer

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright (homeostat-llm[browser]) is not installed"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds; a busy machine is slow, not wrong
HOSTILE = [
    "<script>window.owned = 1</script>",
    "</script><script>window.owned = 2</script>",
    "<img src=x onerror='window.owned = 3'>",
    "\u2028\u2029<!--<script>\x00\x01\x1b[31m\ud800\ufffe${7*7}{{7*7}}",
    "]]>'\"><svg onload=window.owned=4>",
    "javascript:window.owned=5",
]


class Watched:
    """A page that remembers everything that must not happen: errors, console errors, requests."""

    def __init__(self, browser: Any, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda m: self.faults.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda e: self.faults.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))

    def open(self, url: str) -> Any:
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready=yes]")
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    page = Watched(browser)
    yield page
    page.context.close()
    assert page.faults == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A code run with hostile texts, a plain one, and a cache run."""
    root = tmp_path_factory.mktemp("browser") / "runs"
    samples = [sample(0, "gcd", f"```\n{OTHER}\n```", pre=OTHER, post=CANON)]
    samples += [sample(i, text.replace("\ud800", ""), text) for i, text in enumerate(HOSTILE, start=1)]
    samples.append(sample(len(samples), "gcd", "A" * 400_000 + "\n" + "line\n" * 40_000))
    hostile = code_run(root / "<b onmouseover=owned=6>hostile", samples)
    code_run(root / "plain", seed=3)
    cache = cache_run(root / "cache")
    for run in (hostile, cache):
        write_report(run)
    return root


@pytest.fixture(scope="module")
def code_report(runs: Path) -> str:
    return (runs / "<b onmouseover=owned=6>hostile" / "report.html").as_uri()


@pytest.fixture(scope="module")
def cache_report(runs: Path) -> str:
    return (runs / "cache" / "report.html").as_uri()


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[Viewer]:
    with Viewer(runs) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_report_loads_with_one_request_its_own(watched: Watched, cache_report: str) -> None:
    page = watched.open(cache_report)
    page.mouse.wheel(0, 20_000)
    page.wait_for_timeout(200)
    assert watched.requests == [cache_report]
    assert page.locator("main h1").inner_text() == "cache"
    assert page.locator(".headline").count() >= 4


def test_a_curves_tooltip_shows_the_recorded_values(watched: Watched, cache_report: str, runs: Path) -> None:
    metrics = json.loads((runs / "cache/metrics/task_metrics.json").read_text())["metrics"]
    recorded = {r["defence"]: r for r in metrics["robustness.score"] if r["epsilon"] == 0.2}
    page = watched.open(cache_report)
    plot = page.locator("#robustness svg.plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 60)  # the last epsilon
    tip = page.locator("#robustness .tip:not([hidden])")
    assert "severity (epsilon) 0.2" in tip.inner_text()
    for name in ("none", "G", "guard", "best_heuristic"):
        row = tip.locator(f"tr[data-name={name}]")
        assert row.get_attribute("title") == repr(recorded[name]["value"])
        low, high = recorded[name]["ci"]
        assert f"{recorded[name]['value']:.3f} [{low:.3f}, {high:.3f}]" in " ".join(row.inner_text().split())
    assert "smoothing" not in tip.inner_text()


def test_curves_are_read_with_the_keyboard_and_spoken(watched: Watched, cache_report: str) -> None:
    page = watched.open(cache_report)
    page.locator("#robustness svg.plot").first.focus()
    page.keyboard.press("End")
    assert page.locator("#voice").inner_text().startswith("severity (epsilon) 0.2: ")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#voice").inner_text().startswith("severity (epsilon) 0.1: ")


def test_defences_are_switched_off_and_on(watched: Watched, cache_report: str) -> None:
    page = watched.open(cache_report)
    line = page.locator("#robustness .panel:not(.away) svg.plot path[aria-label=guard]")
    key = page.locator("#robustness .legend button", has_text=re.compile("^guard$"))
    shown = line.count()
    assert shown == 3 and key.get_attribute("aria-pressed") == "true"
    key.click()
    assert line.count() == 0 and key.get_attribute("aria-pressed") == "false"
    key.focus()
    page.keyboard.press("Enter")
    assert line.count() == shown
    page.locator("#robustness .choice button", has_text="Wikitext-2 perplexity").click()
    assert page.locator("#robustness .panel:not(.away)").count() == 2


def test_a_map_cell_shows_its_recorded_value(watched: Watched, cache_report: str, runs: Path) -> None:
    metrics = json.loads((runs / "cache/metrics/stability_metrics.json").read_text())["metrics"]
    entry = next(e for e in metrics["stability.amplification_map"] if (e["layer"], e["head"]) == (2, 1))
    page = watched.open(cache_report)
    cells = page.locator("#amplification svg.heatplot").first.locator("g[aria-label=cell] rect")
    cells.nth(1 * 4 + 2).hover()  # row by row, four layers in each
    readout = page.locator("#amplification .readout")
    assert readout.inner_text() == f"no defence · KV head 1, layer 2: {entry['before']:.3f}"
    page.locator("#amplification svg.heatplot").first.focus()
    page.keyboard.press("ArrowRight")
    assert "layer 3" in readout.inner_text()


def test_a_diff_opens_with_raw_repaired_and_canon_side_by_side(watched: Watched, code_report: str) -> None:
    page = watched.open(code_report)
    page.locator(".rows .link").first.click()
    dialog = page.locator("dialog[open]")
    panes = dialog.locator(".pane")
    assert panes.locator("h4").all_inner_texts() == ["Raw, normalised", "Repaired = canon", "Canon"]
    text = [panes.nth(i).locator(".ln > span:last-child").all_inner_texts() for i in range(3)]
    assert text == [OTHER.split("\n"), CANON.split("\n"), CANON.split("\n")]
    assert panes.nth(0).locator(".gone").count() == 4 and panes.nth(1).locator(".come").count() == 4
    assert "rename locals" in dialog.inner_text() and "rewritten" in dialog.inner_text()
    dialog.locator("button.switch").click()
    assert "```" in panes.nth(0).inner_text()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_hostile_huge_and_binary_texts_render_inert(watched: Watched, code_report: str) -> None:
    page = watched.open(code_report)
    rows = page.locator(".rows .link")
    for place in range(1, rows.count()):
        rows.nth(place).click()
        page.wait_for_selector("dialog[open] .pane .ln")
        if place <= len(HOSTILE):
            shown = (
                page.locator("dialog[open] .pane").first.locator(".ln > span:last-child").all_inner_texts()
            )
            assert "script" not in HOSTILE[place - 1] or any("script" in line for line in shown)
        page.keyboard.press("Escape")
    assert page.evaluate("window.owned") is None
    assert page.locator("main script, main img[src=x], main svg[onload], main b[onmouseover]").count() == 0


def test_filters_search_and_pages_of_the_sample_browser(watched: Watched, code_report: str) -> None:
    page = watched.open(code_report)
    page.select_option("select[name=outcome]", "rescued")
    assert page.locator(".rows tbody tr").count() == 1
    page.select_option("select[name=outcome]", "")
    page.get_by_label("Search in sample texts").fill("onerror")
    playwright.expect(page.locator(".rows .link")).to_have_text(["000003"], timeout=PATIENCE)


def test_five_thousand_samples_open_in_under_three_seconds(browser: Any, tmp_path: Path) -> None:
    samples = [
        sample(i, f"prompt_{i % 12}", f"# {i}\n{CANON}\n# {i * 7919}", pre=OTHER, post=CANON)
        for i in range(5000)
    ]
    path = write_report(code_run(tmp_path / "many", samples))
    times = []
    for _ in range(3):  # the best of three: the machine may be busy with other tests
        page = Watched(browser)
        begun = time.perf_counter()
        page.open(path.as_uri())
        page.page.wait_for_selector(".rows tbody tr")
        times.append(time.perf_counter() - begun)
        assert "5,000 of 5,000 samples · page 1 of 100" in page.page.locator(".samples").inner_text()
        assert page.faults == []
        page.context.close()
    assert path.stat().st_size < 15_000_000
    if min(times) >= 3.0 and os.getloadavg()[0] > 3 * (os.cpu_count() or 1):
        pytest.skip(
            f"the machine is too busy to time anything: {min(times):.1f} s at load {os.getloadavg()[0]:.0f}"
        )
    assert min(times) < 3.0


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_no_page_is_wider_than_the_screen(
    browser: Any, width: int, code_report: str, cache_report: str
) -> None:
    page = Watched(browser, viewport={"width": width, "height": 800})
    for url in (code_report, cache_report):
        page.open(url).wait_for_timeout(150)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_a_phone_shows_tables_as_cards_with_every_column_and_nothing_scrolls_inside(
    browser: Any, code_report: str, cache_report: str
) -> None:
    page = Watched(browser, viewport={"width": 390, "height": 800})
    for url, table in ((cache_report, "#auc"), (code_report, "#prompt-table")):
        page.open(url)
        cards = page.page.locator(f"{table} tbody tr")
        labels = page.page.locator(f"{table} thead th").all_inner_texts()
        shown = cards.first.evaluate("card => [...card.children].map((cell) => cell.dataset.label)")
        assert shown == labels
        sideways = "e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible'"
        assert not any(frame.evaluate(sideways) for frame in page.page.locator(".scroll").all())
    page.context.close()


def test_a_table_that_is_wider_than_its_frame_says_which_columns_are_out_of_sight(
    browser: Any, cache_report: str
) -> None:
    page = Watched(browser, viewport={"width": 720, "height": 800})
    page.open(cache_report)
    frame = page.page.locator("#auc .scroll")
    hint = page.page.locator("#auc .hint")
    if frame.evaluate("e => e.scrollWidth > e.clientWidth + 2"):
        assert "clean regression" in hint.inner_text()
        frame.evaluate("e => { e.scrollLeft = e.scrollWidth; }")
        playwright.expect(hint).to_have_text("", timeout=PATIENCE)
    else:
        assert hint.inner_text() == ""
    page.context.close()


def test_a_name_explains_itself_on_click_and_the_technical_one_is_beside_it(
    watched: Watched, cache_report: str
) -> None:
    page = watched.open(cache_report)
    page.locator("#auc tbody .term", has_text="best heuristic").click()
    note = page.locator(".explained")
    assert "best_heuristic" in note.inner_text() and "one half of the examples" in note.inner_text()
    page.keyboard.press("Escape")
    assert note.count() == 0


def test_two_conditions_are_drawn_as_dots_with_intervals_and_no_line(browser: Any, tmp_path: Path) -> None:
    run = joint_run(tmp_path / "joint")
    metrics = run / "metrics" / "joint_metrics.json"
    record = json.loads(metrics.read_text())
    record["metrics"]["joint.arms"] = [arm for arm in record["metrics"]["joint.arms"] if arm["epsilon"] < 0.5]
    page = Watched(browser)
    for many in (True, False):
        if not many:
            metrics.write_text(json.dumps(record))
        page.open(write_report(run).as_uri())
        plot = page.page.locator("#joint-curves svg.plot").first
        assert (plot.locator("g[aria-label=line]").count() > 0) is many
        assert plot.locator("g[aria-label=dot]").count() == 2
        assert many or plot.locator("g[aria-label=rule] line").count() >= 4  # an interval for each dot
    assert page.faults == []
    page.context.close()


def test_the_theme_follows_the_system_and_the_readers_choice(browser: Any, cache_report: str) -> None:
    page = Watched(browser, color_scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    dark = page.open(cache_report).evaluate(shade)
    page.page.locator("button.theme").click()
    assert page.page.locator("button.theme").inner_text() == "Theme: light"
    assert page.page.evaluate(shade) == "rgb(255, 255, 255)" != dark
    page.context.close()


def test_it_prints_on_paper_with_every_group_of_curves(browser: Any, cache_report: str) -> None:
    page = Watched(browser, color_scheme="dark")
    page.open(cache_report).emulate_media(media="print")
    assert page.page.locator("#robustness .panel:visible").count() == 7
    assert page.page.locator(".bar-top, .contents, .controls").locator("visible=true").count() == 0
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


def test_the_viewer_lists_finds_and_opens_runs_and_asks_nobody_else(watched: Watched, viewer: Viewer) -> None:
    page = watched.open(viewer.url)
    assert page.locator(".runs tbody tr").count() == 3
    page.get_by_label("Search runs").fill("cache AUC")
    assert page.locator(".runs .run-name").all_inner_texts() == ["cache"]
    page.get_by_label("Search runs").fill("onmouseover")
    page.locator(".runs .run-name").click()
    page.wait_for_selector(".rows tbody tr")
    page.locator(".rows .link").nth(1).click()
    page.wait_for_selector("dialog[open] .pane .ln")
    assert page.evaluate("window.owned") is None
    assert all(url.startswith(viewer.url) for url in watched.requests)


def test_comparing_two_runs_shows_both(watched: Watched, viewer: Viewer) -> None:
    page = watched.open(viewer.url)
    for name in ("plain", "hostile"):
        page.get_by_label(re.compile(f"Choose .*{name}")).check()
    page.locator("button", has_text="Compare 2 chosen").click()
    page.wait_for_selector("#compare-figures")
    heads = page.locator("#compare-figures thead th").all_inner_texts()
    assert heads == [
        "figure",
        "plain",
        "<b onmouseover=owned=6>hostile",
        "<b onmouseover=owned=6>hostile − plain",
    ]
    assert page.locator("#compare-settings tbody tr", has_text="seed").count() == 1
    keys = page.locator("#prompt-dots .legend button").all_inner_texts()
    assert keys == ["plain", "<b onmouseover=owned=6>hostile"]
    assert page.evaluate("window.owned") is None
    change = page.locator("#compare-figures tbody tr", has_text="repeatability to the canon").locator(".tone")
    assert "worse" in change.inner_text()


def test_the_viewer_follows_a_run_that_is_still_going(watched: Watched, viewer: Viewer, runs: Path) -> None:
    with open_run(runs / "going", command="homeostat cache run", config=ExampleConfig()) as run:
        for step in range(3):
            run.log("train").append(step, loss_total=1.0 / (1 + step))
        page = watched.open(f"{viewer.url}#/run|going")
        assert page.locator(".state-running").count() == 1
        page.wait_for_selector("#log-train")
        run.log("train").append(99, loss_total=0.01)
        playwright.expect(page.locator("#logs")).to_contain_text('"step": 99', timeout=PATIENCE)
        run.finish()
        page.wait_for_selector(".state-complete")
    shutil.rmtree(runs / "going")
