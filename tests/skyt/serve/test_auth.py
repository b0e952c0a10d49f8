"""Keys: none or a wrong one is 401, one contract's key reads no other's samples, the log has no secrets."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.skyt.serve.conftest import settings
from tests.support.scripted import GCD, ScriptedUpstream, fenced

from homeostat.core.errors import UserError
from skyt.serve import auth
from skyt.serve.database.keys import add_key, match, revoke_key, valid_keys
from skyt.serve.service import Service
from skyt.serve.telemetry import LOGGER, JsonFormatter

ASK = [{"role": "user", "content": "the secret prompt"}]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_FRESH_S", -1.0)  # keys are read again for every request


def test_keys_open_exactly_what_they_are_for(start: Callable[..., Any], upstream: ScriptedUpstream) -> None:
    with start() as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        everything = add_key(service.store, "team")
        only_gcd = add_key(service.store, "ci", ["gcd"])
        upstream.otherwise = fenced(GCD)

        def chat(model: str, headers: dict[str, str]) -> httpx.Response:
            asked = [{"role": "user", "content": service.matcher.contracts["gcd"].prompt}]
            body = {"model": model, "messages": ASK if model == "scripted" else asked}
            return client.post("/v1/chat/completions", json=body, headers=headers)

        for headers in ({}, bearer("wrong"), {"authorization": "Basic x"}, bearer("\u00fcber")):
            encoded = {k: v.encode("latin-1") for k, v in headers.items()}
            assert chat("scripted", encoded).status_code == 401  # type: ignore[arg-type]
            for path in ("/v1/models", "/metrics", "/api/status", "/api/samples?contract=gcd", "/v1/files"):
                assert client.get(path, headers=encoded).status_code == 401  # type: ignore[arg-type]
        assert client.get("/healthz").status_code == 200

        assert chat("skyt/is_prime", bearer(everything)).status_code == 200
        assert chat("skyt/gcd", bearer(only_gcd)).status_code == 200
        assert "authorization" not in upstream.requests[-1]["headers"]
        assert chat("skyt/is_prime", bearer(only_gcd)).status_code == 403
        assert chat("scripted", bearer(only_gcd)).status_code == 403
        for path in (
            "/metrics",
            "/v1/files",
            "/v1/models/skyt/is_prime",
            "/api/samples?contract=is_prime",
            "/api/history?contract=is_prime",
        ):
            assert client.get(path, headers=bearer(only_gcd)).status_code == 403
        seen = client.get("/api/status", headers=bearer(only_gcd)).json()
        assert [contract["prompt_id"] for contract in seen["contracts"]] == ["gcd"]
        models = client.get("/v1/models", headers=bearer(only_gcd)).json()["data"]
        assert [model["id"] for model in models] == ["skyt/gcd"]
        assert client.get("/v1/models/skyt/gcd", headers=bearer(only_gcd)).status_code == 200
        assert len(client.get("/api/samples?contract=gcd", headers=bearer(only_gcd)).json()["samples"]) == 1

        revoke_key(service.store, "ci")
        assert chat("skyt/gcd", bearer(only_gcd)).status_code == 401
        revoke_key(service.store, "team")
        assert chat("skyt/gcd", {}).status_code == 401  # revoking the last key does not open the door


def test_keys_are_kept_as_hashes_only(start: Callable[..., Any]) -> None:
    with start() as (_, service):
        key = add_key(service.store, "x")
        kept = valid_keys(service.store)
        assert match(key, kept) == kept[0] and match(key[:-1], kept) is None
        dump = "\n".join(service.store.engine.raw_connection().driver_connection.iterdump())
        assert key not in dump and key.removeprefix("skyt-") not in dump


def test_the_log_has_request_ids_and_neither_prompts_nor_keys(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    logger = logging.getLogger(LOGGER)
    handler = Keep()
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with start() as (url, _):
            for model in ("scripted", "skyt/gcd"):
                body = {"model": model, "messages": ASK}
                response = httpx.post(
                    f"{url}/v1/chat/completions", json=body, headers=bearer("sk-private"), timeout=30
                )
                assert response.headers["x-request-id"] in "\n".join(lines)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    text = "\n".join(lines)
    assert "secret prompt" not in text and "sk-private" not in text and "def gcd" not in text
    requests = [json.loads(line) for line in lines if json.loads(line)["event"] == "request"]
    assert {"method", "route", "status", "ms", "upstream_ms"} <= set(requests[-1])


def test_a_host_others_can_reach_needs_a_key(
    upstream: ScriptedUpstream, contracts: dict[str, Any], tmp_path: Any
) -> None:
    with pytest.raises(UserError, match="no API key"):
        Service(settings(upstream, tmp_path, host="0.0.0.0"), contracts)  # noqa: S104


def test_another_host_name_is_refused_on_loopback(start: Callable[..., Any]) -> None:
    with start() as (url, _):
        assert httpx.get(f"{url}/api/status", headers={"host": "evil.example"}).status_code == 421
        assert httpx.get(f"{url}/api/status", headers={"host": "localhost"}).status_code == 200


@pytest.mark.parametrize(
    "lines",
    [
        ["Host: localhost", "Host: evil.example"],
        ["Host: evil.example", "Host: localhost"],
        ["Host: localhost:80@evil.com"],
        ["Host: localhost, evil.example"],
        ["Host: localhost evil.example"],
        ["Host: [::1"],
        ["Host: localhost:"],
        ["Host: localhost:port"],
        ["Host:"],
        [],
    ],
)
def test_a_host_header_that_is_not_one_name_and_port_is_refused(open_url: str, lines: list[str]) -> None:
    assert _status(open_url, "/api/status", lines) == 400


def test_a_whole_address_as_target_is_refused(open_url: str) -> None:
    assert _status(open_url, "http://evil.example/api/status", ["Host: localhost"]) == 400
    assert _status(open_url, "/api/status", ["Host: LOCALHOST:8080"]) == 200
    assert _status(open_url, "/api/status", ["Host: [::1]:8080"]) == 200


@pytest.fixture(scope="module")
def open_url(start: Callable[..., Any]) -> Iterator[str]:
    with start() as (url, _):
        yield url


def _status(url: str, target: str, lines: list[str]) -> int:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = "\r\n".join([f"GET {target} HTTP/1.1", *lines, "Connection: close", "", ""])
        connection.sendall(head.encode("latin-1"))
        return int(connection.recv(64).split()[1])


def test_a_key_may_ask_so_often_in_a_minute_and_then_waits(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start(limits={"per_key_per_minute": 3}) as (url, service), httpx.Client(base_url=url) as client:
        often = bearer(add_key(service.store, "often", per_minute=5))
        seldom = bearer(add_key(service.store, "seldom"))
        other = bearer(add_key(service.store, "other"))

        def asked(headers: dict[str, str], times: int) -> list[int]:
            return [client.get("/v1/models", headers=headers).status_code for _ in range(times)]

        assert asked(often, 6) == [200] * 5 + [429]
        assert asked(seldom, 4) == [200] * 3 + [429]
        assert asked(other, 1) == [200]  # one key's haste is not another's
        refused = client.get("/v1/models", headers=seldom)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert client.get("/api/status", headers=seldom).status_code == 200  # looking is not asking
        service.guard._rates._times.clear()  # a minute later
        assert asked(seldom, 1) == [200]
