"""Bad and hostile requests: an error of the client's, in time, and never a 5xx."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.scripted import GCD, ScriptedUpstream, fenced

_POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
LIMITS = {
    "max_body_bytes": 20_000,
    "max_header_bytes": 4096,
    "header_timeout_s": 0.4,
    "body_timeout_s": 0.4,
    "max_active": 2,
    "max_waiting": 1,
}


@pytest.fixture(scope="module")
def url(start: Callable[..., Any]) -> Iterator[str]:
    with start(limits=LIMITS) as (url, _):
        yield url


def post(url: str, content: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(f"{url}/v1/chat/completions", content=content, headers=headers, timeout=10)


def talk(url: str, *parts: bytes, pause: float = 0.0) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        except OSError:
            pass
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
        except OSError:
            pass
        return answer


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b'{"model": NaN}', 400),
        (
            b'{"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}], "temperature": 1e999}',
            400,
        ),
        (b'{"model": "\xff\xfe"}', 400),
        (b"[" * 19_000, 400),
        (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, 400),
        (b'{"model": "skyt/gcd", "seed": ' + b"9" * 6000 + b"}", 400),
        (b'{"model": "' + b"x" * 30_000 + b'"}', 413),
    ],
    ids=["empty", "cut", "list", "text", "nan", "infinite", "utf8", "deep", "deep-object", "digits", "large"],
)
def test_a_bad_body_is_refused(url: str, content: bytes, status: int) -> None:
    response = post(url, content)
    assert response.status_code == status and response.json()["error"]["message"]


def test_a_body_without_a_length_is_counted_as_it_comes(url: str) -> None:
    head = _POST + b"transfer-encoding: chunked\r\n\r\n"
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    assert talk(url, head, *([chunk] * 10)).startswith(b"HTTP/1.1 413")


def test_a_deep_value_inside_an_anchored_request_is_refused(url: str) -> None:
    deep = (
        b'{"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}], "x": '
        + b"[" * 900
        + b"]" * 900
        + b"}"
    )
    assert post(url, deep).status_code in (200, 400, 502)


def test_slow_headers_and_slow_bodies_are_cut_off_in_time(url: str) -> None:
    began = time.monotonic()
    answer = talk(url, b"POST /v1/chat/completions HTTP/1.1\r\n", *([b"x-a: 1\r\n"] * 8), pause=0.1)
    assert answer.startswith(b"HTTP/1.1 408")
    assert talk(url, b"").startswith(b"HTTP/1.1 408")  # a connection that says nothing
    head = _POST + b"content-length: 1000\r\n\r\n"
    assert talk(url, head, *([b"{"] * 6), pause=0.1).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 5


def test_large_headers_and_nonsense_are_refused(url: str) -> None:
    large = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x-a: " + b"y" * 8000 + b"\r\n\r\n"
    assert talk(url, large).startswith(b"HTTP/1.1 431")
    assert talk(url, b"\x16\x03\x01 what is this\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_more_requests_than_can_be_held_get_429_and_the_others_are_answered(
    url: str, upstream: ScriptedUpstream
) -> None:
    def slow(body: dict[str, Any]) -> str:
        time.sleep(0.1)
        return "fine"

    async def flood() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            body = {"model": "scripted", "messages": [{"role": "user", "content": "?"}]}
            return await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for _ in range(12)))

    upstream.otherwise = slow
    try:
        answers = asyncio.run(flood())
    finally:
        upstream.otherwise = "hello"
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) >= 3 and codes.count(429) >= 1 and set(codes) == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1" and refused.json()["error"]["code"] == "queue_full"


def test_the_metrics_exposition_counts_what_happened(url: str, upstream: ScriptedUpstream) -> None:
    upstream.plan.append(fenced(GCD))
    post(
        url,
        json.dumps({"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]}).encode(),
    )
    text = httpx.get(f"{url}/metrics").text
    assert 'skyt_samples_total{contract="gcd",evidence="identical",policy="repair"}' in text
    assert "skyt_overhead_seconds_bucket" in text and 'skyt_upstream_attempts_total{outcome="200"}' in text
