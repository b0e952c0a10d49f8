"""Canons in the service: refused when they do not comply, shown on the page, managed by keys that may."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from tests.skyt.serve.conftest import running, settings
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

from homeostat.core.errors import UserError
from skyt.canon import CanonRefusedError
from skyt.contracts.contract import Contract
from skyt.records.store import encode
from skyt.records.tables import canons
from skyt.runs.canons import new_canon
from skyt.runs.judging.assess import versions
from skyt.serve import auth
from skyt.serve.cli import canon_commands
from skyt.serve.database.keys import add_key
from skyt.serve.database.store import Store
from skyt.serve.service import Service
from skyt.text.normalise import normalise
from skyt.text.signature import signature

BODY = {"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_FRESH_S", -1.0)  # keys are read again for every request


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def stored(folder: Path, contract: Contract, code: str) -> str:
    """A database with this canon."""
    path = str(folder / "skyt.sqlite")
    store = Store.open(path, versions())
    store.set(new_canon(contract, normalise(code).text, origin="given", model=None, temperature=None))
    store.close()
    return path


def test_a_service_does_not_start_on_a_canon_that_the_oracle_rejects(
    upstream: ScriptedUpstream, contracts: dict[str, Contract], tmp_path: Path
) -> None:
    stored(tmp_path, contracts["gcd"], GCD_WRONG)
    with pytest.raises(CanonRefusedError, match=r"'gcd' in the database.*--re-anchor gcd.*--trust-canons"):
        Service(settings(upstream, tmp_path), contracts)
    trusting = settings(upstream, tmp_path, measure={"trust_canons": True})
    service = Service(trusting, contracts)
    [event] = service.store.events("gcd")
    assert event.action == "trusted" and "the oracle rejects it" in event.findings[0]
    service.abandon()
    anew = Service(settings(upstream, tmp_path), contracts, re_anchor=["gcd"])
    assert anew.store.get("gcd") is None and len(anew.store.archived("gcd")) == 1
    anew.abandon()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("normalized_code", "def gcd(a, b):\n    return 2", "damaged canon 'gcd' in the database"),
        ("constraints_snapshot", None, "contract_hash"),
        ("oracle_version", "0-py3", "canon approve"),
    ],
)
def test_a_tampered_canon_in_the_database_is_refused(
    upstream: ScriptedUpstream,
    contracts: dict[str, Contract],
    tmp_path: Path,
    field: str,
    value: Any,
    message: str,
) -> None:
    store = Store.open(stored(tmp_path, contracts["gcd"], GCD), versions())
    canon = store.get("gcd")
    assert canon is not None
    record = {**vars(canon)}
    record[field] = {**record["constraints_snapshot"], "prompt": "x"} if value is None else value
    with store.engine.begin() as connection:
        connection.execute(update(canons).values(record=encode(record)))
    store.close()
    with pytest.raises(UserError, match=message) as caught:
        Service(settings(upstream, tmp_path), contracts)
    assert "\n" not in str(caught.value)


def test_a_canon_of_a_changed_contract_is_refused_by_its_field(
    upstream: ScriptedUpstream, contracts: dict[str, Contract], tmp_path: Path
) -> None:
    stored(tmp_path, contracts["gcd"], GCD)
    changed = contracts["gcd"].model_copy(update={"prompt": "Another prompt."})
    with pytest.raises(CanonRefusedError, match=r'prompt was "Write.*, is "Another prompt'):
        Service(settings(upstream, tmp_path), {"gcd": changed})


def test_only_a_key_that_manages_canons_may_act_and_acts_are_on_record(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        upstream.plan.append(fenced(GCD))
        client.post("/v1/chat/completions", json=BODY)
        act = {"contract": "gcd", "why": "looked at it"}
        assert client.post("/api/canon/approve", json=act).status_code == 403  # an open service: nobody
        reader = bearer(add_key(service.store, "reader"))
        boss = bearer(add_key(service.store, "boss", ["gcd"], manages=True))
        assert client.post("/api/canon/approve", json=act, headers=reader).status_code == 403
        shown = client.get("/api/canon?contract=gcd", headers=boss).json()
        assert shown["may_manage"] is True and "while b" in shown["canon"]["code"]
        assert client.get("/api/canon?contract=is_prime", headers=boss).status_code == 403
        stale = {**act, "canon_signature": signature("another")}
        assert client.post("/api/canon/approve", json=stale, headers=boss).status_code == 409
        for bad in ({"contract": "gcd"}, {**act, "why": "  "}, {**act, "why": 3}, []):
            assert client.post("/api/canon/approve", json=bad, headers=boss).status_code in (400, 404)
        seen = {**act, "canon_signature": shown["canon"]["canon_signature"]}
        assert client.post("/api/canon/approve", json=seen, headers=boss).status_code == 200
        assert client.post("/api/canon/re-anchor", json=seen, headers=boss).status_code == 200
        upstream.plan.append(fenced(GCD_RENAMED))
        asked = [{"role": "user", "content": service.matcher.contracts["gcd"].prompt}]
        again = client.post("/v1/chat/completions", json={**BODY, "messages": asked}, headers=boss)
        told = again.json()["skyt"]
        assert told["canon_signature"] not in (None, seen["canon_signature"])
        events = client.get("/api/canon?contract=gcd", headers=boss).json()["events"]
        assert [(e["action"], e["who"], e["why"]) for e in events] == [
            ("approved", "boss", "looked at it"),
            ("archived", "boss", "looked at it"),
        ]


def test_a_canon_set_in_the_database_takes_effect_in_a_running_service(
    upstream: ScriptedUpstream, contracts: dict[str, Contract], tmp_path: Path
) -> None:
    service = Service(settings(upstream, tmp_path), contracts)
    program = tmp_path / "renamed.py"
    program.write_text(GCD_RENAMED)
    with running(service) as url, httpx.Client(base_url=url, timeout=30) as client:
        upstream.plan.append(fenced(GCD))
        client.post("/v1/chat/completions", json=BODY)
        canon_commands.set_(str(tmp_path / "skyt.sqlite"), "gcd", program, why="names", who="Ada")
        upstream.plan.append(fenced(GCD))
        told = client.post("/v1/chat/completions", json=BODY).json()["skyt"]
        assert told["samples"][0]["evidence"] == "rewritten"
        assert told["canon_signature"] == signature(normalise(GCD_RENAMED).text)


playwright = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium here: `apt-get install chromium`")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_the_page_shows_the_canon_and_its_buttons_to_those_who_may(
    browser: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start() as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        upstream.plan.append(fenced(GCD))
        client.post("/v1/chat/completions", json=BODY)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(url)
        page.wait_for_selector(".canon pre")
        assert "while b:" in page.locator(".canon pre").inner_text()
        assert page.locator(".managing").count() == 0
        key = add_key(service.store, "boss", manages=True)
        page.evaluate("key => sessionStorage.setItem('homeostat-skyt-key', key)", key)
        page.reload()
        page.wait_for_selector(".managing")
        page.click("text=Approve")
        assert "Say why" in page.locator(".managing p").inner_text()
        page.fill("#why", "plain & short")
        page.click("text=Approve")
        page.wait_for_function("() => document.body.innerText.includes('by boss: plain & short')")
        if folder := os.environ.get("HOMEOSTAT_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "serve-canon.png", full_page=True)
        page.on("dialog", lambda dialog: dialog.accept())
        page.fill("#why", "again")
        page.click("text=Re-anchor")
        page.wait_for_function("() => document.body.innerText.includes('archived none by boss: again')")
        assert service.store.get("gcd") is None
        page.close()


def test_the_dashboard_shows_every_metric_there_is_and_no_other(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    import re

    from skyt.serve.telemetry import Telemetry

    dashboard = json.loads(Path("configs/skyt/grafana_dashboard.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"skyt_[a-z_]+", target["expr"])
    }
    kinds = {"counter": "_total", "histogram": "_bucket", "gauge": "", "info": "_info"}
    offered = {
        metric.name + kinds[metric.type]
        for metric in Telemetry().registry.collect()
        if metric.name.startswith("skyt_")
    }
    assert asked == offered
