"""Pass-through: what no contract matches goes through untouched, whatever the upstream does."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from tests.support.scripted import GCD, ScriptedUpstream, fenced

HELLO = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "odd": {"kept": [1, None]}}


@pytest.fixture(scope="module")
def url(start: Callable[..., Any]) -> Iterator[str]:
    with start(limits={"request_timeout_s": 3.0}) as (url, _):
        yield url


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="the-clients-own", max_retries=0, timeout=20) as client:
        yield client


def post(url: str, body: Any = HELLO, **options: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=20, **options)


def test_the_upstream_sees_the_clients_bytes_and_key_and_the_client_its_answer(
    url: str, upstream: ScriptedUpstream
) -> None:
    raw = json.dumps(HELLO, indent=3).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer theirs", "x-mine": "1"}
    response = httpx.post(f"{url}/v1/chat/completions", content=raw, headers=headers)
    sent = upstream.requests[-1]
    assert sent["raw"] == raw and sent["headers"]["authorization"] == "Bearer theirs"
    assert sent["headers"]["x-mine"] == "1" and "skyt" not in response.json()
    assert response.headers["x-upstream"] == "yes" and response.headers["x-request-id"].startswith("req_")


def test_other_parts_of_the_api_go_through(url: str, upstream: ScriptedUpstream) -> None:
    assert httpx.post(f"{url}/v1/embeddings?x=1", json={"input": "a"}).status_code == 200
    assert upstream.requests[-1]["path"] == "/v1/embeddings?x=1"
    before = len(upstream.requests)
    for path in (
        "/v1/%2e%2e/secret",
        "/v1/a/..%2fsecret",
        "/v1/a%5c..%5cb",
        "/v1/%252e%252e/secret",
        "/v1/%25252e/x",
    ):
        assert httpx.get(url + path).status_code == 404
    assert len(upstream.requests) == before


def test_a_contract_is_refused_in_one_line_where_nothing_is_anchored(
    url: str, upstream: ScriptedUpstream, contracts: dict[str, Any]
) -> None:
    prompt = contracts["gcd"].prompt
    before = len(upstream.requests)
    for body, headers in (
        ({"model": "skyt/gcd", "input": "hello"}, {}),
        ({"model": "m", "input": prompt}, {}),
        ({"model": "m", "input": [{"role": "user", "content": prompt}]}, {}),
        ({"model": "m", "input": "hello", "metadata": {"skyt_contract": "gcd"}}, {}),
        ({"model": "m", "input": "hello"}, {"x-skyt-contract": "gcd"}),
    ):
        for path in ("/v1/responses", "/v1/responses/"):
            answer = httpx.post(url + path, json=body, headers=headers)
            assert answer.status_code == 400, answer.text
            assert "contract 'gcd' is anchored at /v1/chat/completions" in answer.json()["error"]["message"]
    assert len(upstream.requests) == before
    assert httpx.post(f"{url}/v1/responses", json={"model": "m", "input": "hello"}).status_code == 200


def test_max_completion_tokens_reaches_the_upstream_as_it_is(url: str, upstream: ScriptedUpstream) -> None:
    upstream.plan.extend(["hello", fenced(GCD)])
    for model in ("scripted", "skyt/gcd"):
        assert post(url, {**HELLO, "model": model, "max_completion_tokens": 77}).status_code == 200
        assert upstream.requests[-1]["body"]["max_completion_tokens"] == 77


@pytest.mark.parametrize("trouble", ["!429", "!500", "!closed", "!cut"])
def test_a_passing_failure_is_tried_again(
    client: openai.OpenAI, upstream: ScriptedUpstream, trouble: str
) -> None:
    upstream.plan.extend([trouble, trouble, "fine"])
    answer = client.chat.completions.create(model="scripted", messages=HELLO["messages"])
    assert answer.choices[0].message.content == "fine" and not upstream.plan


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        ("!429", openai.RateLimitError),
        ("!500", openai.InternalServerError),
        ("!400", openai.BadRequestError),
        ("!closed", openai.InternalServerError),
        ("!cut", openai.InternalServerError),
    ],
)
def test_a_lasting_failure_reaches_the_real_client_as_its_own_error(
    client: openai.OpenAI, upstream: ScriptedUpstream, trouble: str, error: type[Exception]
) -> None:
    upstream.plan.extend([trouble] * (1 if trouble == "!400" else 3))
    with pytest.raises(error):
        client.chat.completions.create(model="scripted", messages=HELLO["messages"])
    assert not upstream.plan


def test_a_hanging_upstream_is_a_504_in_time(url: str, upstream: ScriptedUpstream) -> None:
    upstream.plan.extend(["!hang"] * 3)
    began = time.monotonic()
    response = post(url)
    assert response.status_code == 504 and time.monotonic() - began < 3.5
    upstream.plan.clear()


@pytest.mark.parametrize("trouble", ["!badjson", "!nojson", "!nochoices"])
def test_an_unreadable_answer_passes_untouched_but_is_a_502_where_we_must_read_it(
    url: str, upstream: ScriptedUpstream, trouble: str
) -> None:
    upstream.plan.append(trouble)
    assert post(url).status_code == 200
    upstream.plan.extend([trouble] * 3)
    anchored = post(url, {**HELLO, "model": "skyt/gcd"})
    assert anchored.status_code == 502 and anchored.json()["error"]["type"] == "upstream_error"
    assert not upstream.plan


@pytest.mark.parametrize("trouble", ["!429", "!500", "!closed", "!cut", "!badjson"])
def test_an_anchored_request_survives_a_passing_failure(
    url: str, upstream: ScriptedUpstream, trouble: str
) -> None:
    upstream.plan.extend([trouble, fenced(GCD)])
    assert post(url, {**HELLO, "model": "skyt/gcd"}).json()["skyt"]["samples"][0]["d_post"] == 0.0


def test_a_stream_passes_event_by_event(client: openai.OpenAI, upstream: ScriptedUpstream) -> None:
    upstream.plan.append("one two three four")
    stream = client.chat.completions.create(model="scripted", messages=HELLO["messages"], stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(parts) == "one two three four" and len(parts) > 3


def test_a_stream_that_breaks_off_raises_in_the_real_client(
    client: openai.OpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.plan.append("!cutstream")
    stream = client.chat.completions.create(model="scripted", messages=HELLO["messages"], stream=True)
    got = ""
    with pytest.raises(openai.APIError, match="broke off"):
        for chunk in stream:
            got += chunk.choices[0].delta.content or ""
    assert got == "def"


def test_a_failing_upstream_is_retried_before_a_stream_begins(
    client: openai.OpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.plan.extend(["!500", "!closed", "fine"])
    stream = client.chat.completions.create(model="scripted", messages=HELLO["messages"], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "fine"


def test_models_are_the_upstreams_and_an_alias_for_each_contract(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names == ["scripted", "skyt/gcd", "skyt/is_prime"]


def test_an_alias_is_retrieved_here_and_a_model_from_the_upstream(
    client: openai.OpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.plan.clear()
    found = client.models.retrieve("skyt/gcd")
    assert (found.id, found.object, found.owned_by) == ("skyt/gcd", "model", "skyt")
    with pytest.raises(openai.NotFoundError, match="is_prime"):
        client.models.retrieve("skyt/is_prim")
    asked = len(upstream.requests)
    client.models.retrieve("scripted")
    assert len(upstream.requests) == asked + 1


def test_nobody_listening_is_a_502(start: Callable[..., Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    upstream = {"kind": "http", "base_url": f"http://127.0.0.1:{port}/v1", "backoff_s": 0.01, "retries": 1}
    with start(upstream=upstream) as (url, _):
        assert post(url).status_code == 502
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
