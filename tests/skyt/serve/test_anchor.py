"""Anchored requests: policies, streaming, several choices, what the answer says, what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, completion, fenced

from skyt.serve.database.live import latest
from skyt.serve.service import Service

CANON = "def gcd(a, b):\n    while b:\n        a, b = (b, a % b)\n    return abs(a)"
ASK = [{"role": "user", "content": "gcd, please"}]


@pytest.fixture(scope="module")
def served(start: Callable[..., Any], upstream: ScriptedUpstream) -> Iterator[tuple[httpx.Client, Service]]:
    policies = {"is_prime": {"mode": "observe"}}
    with start(policies=policies) as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        upstream.plan.append(fenced(GCD_WRONG))
        first = client.post("/v1/chat/completions", json={"model": "skyt/gcd", "messages": ASK}).json()
        assert first["skyt"]["canon_id"] is None
        upstream.plan.append(fenced(GCD))
        second = client.post("/v1/chat/completions", json={"model": "skyt/gcd", "messages": ASK}).json()
        assert second["skyt"]["samples"][0]["evidence"] == "identical"
        yield client, service


def ask(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": "skyt/gcd", "messages": ASK, **more})


def test_a_rewritten_output_is_answered_with_the_canon_and_told_so(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    client, _ = served
    upstream.plan.append(fenced(GCD_RENAMED))
    response = ask(client, temperature=0.5)
    body, headers = response.json(), response.headers
    assert body["choices"][0]["message"]["content"] == f"```python\n{CANON}\n```"
    told = body["skyt"]["samples"][0]
    assert told["evidence"] == headers["x-skyt-evidence"] == "rewritten"
    assert told["d_pre"] > 0.0 and told["d_post"] == 0.0 == float(headers["x-skyt-d-post"])
    assert body["skyt"]["canon_signature"] == told["signature"] == headers["x-skyt-signature"]
    assert headers["x-skyt-canon"] == body["skyt"]["canon_id"]
    assert body["usage"]["completion_tokens"] == 7 and body["model"] == "skyt/gcd"
    assert body["system_fingerprint"] == "fp"


def test_an_output_that_is_not_canonical_is_answered_untouched(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    upstream.plan.append(fenced(GCD_WRONG))
    body = ask(served[0]).json()
    assert body["choices"][0]["message"]["content"] == fenced(GCD_WRONG)
    assert body["skyt"]["samples"][0]["replaced"] is False
    assert body["skyt"]["samples"][0]["counterexample"]["shown"] == "gcd(48, 18)"


def test_several_choices_are_judged_each_and_numbered(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    upstream.plan.append(fenced(GCD_RENAMED))
    body = ask(served[0], n=4, seed=9).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert len({sample["sample_id"] for sample in body["skyt"]["samples"]}) == 4
    assert upstream.requests[-1]["body"]["n"] == 4 and upstream.requests[-1]["body"]["seed"] == 9
    assert body["usage"]["completion_tokens"] == 28


def test_a_stream_carries_the_canon_the_usage_and_the_skyt_field(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    upstream.plan.append(fenced(GCD_RENAMED))
    response = ask(served[0], stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line[6:] for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    text = "".join(c["delta"].get("content", "") for e in events for c in e["choices"])
    assert text == f"```python\n{CANON}\n```"
    assert [c["finish_reason"] for e in events for c in e["choices"]][-1] == "stop"
    assert any("skyt" in event for event in events) and events[-1]["usage"]["total_tokens"] == 12
    assert "stream" not in upstream.requests[-1]["body"]


def test_tool_calls_are_passed_on_and_not_recorded(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    client, service = served
    before = len(latest(service.store, "gcd", 200))
    upstream.plan.append("!tools")
    body = ask(client, tools=[{"type": "function", "function": {"name": "f"}}]).json()
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"
    assert body["skyt"]["samples"] == [] and len(latest(service.store, "gcd", 200)) == before
    assert body["skyt"]["outcome"] == "nothing_to_judge"
    sent = completion("!tools", upstream.requests[-1]["body"])["choices"]
    assert body["choices"] == sent and upstream.requests[-1]["body"]["tools"][0]["function"] == {"name": "f"}


@pytest.mark.parametrize("how", ["header", "metadata", "prompt"])
def test_a_contract_is_found_by_header_metadata_and_prompt_text(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream, how: str
) -> None:
    client, service = served
    body: dict[str, Any] = {"model": "other", "messages": ASK}
    headers = {}
    if how == "header":
        headers["X-Skyt-Contract"] = "gcd"
    elif how == "metadata":
        body["metadata"] = {"skyt_contract": "gcd", "mine": "kept"}
    else:
        prompt = service.matcher.contracts["gcd"].prompt
        system = {"role": "system", "content": "Be brief."}
        body["messages"] = [system, {"role": "user", "content": f"  {prompt}\n"}]
    upstream.plan.append(fenced(GCD))
    answer = client.post("/v1/chat/completions", json=body, headers=headers).json()
    assert answer["skyt"]["matched_by"] == how and answer["model"] == "other"
    sent = upstream.requests[-1]
    assert (
        sent["body"].get("metadata") in (None, {"mine": "kept"}) and "x-skyt-contract" not in sent["headers"]
    )


def test_an_unknown_contract_is_a_404_that_names_the_nearest(served: tuple[httpx.Client, Service]) -> None:
    response = served[0].post("/v1/chat/completions", json={"model": "skyt/gdc", "messages": ASK})
    assert response.status_code == 404 and "'gcd'" in response.json()["error"]["message"]


def test_observe_records_and_answers_untouched(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    client, service = served
    code = (
        "def is_prime(n):\n    # trial division\n"
        "    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))"
    )
    upstream.plan.append(fenced(code))
    body = client.post("/v1/chat/completions", json={"model": "skyt/is_prime", "messages": ASK}).json()
    assert body["choices"][0]["message"]["content"] == fenced(code)
    assert body["skyt"]["policy"] == "observe" and body["skyt"]["samples"][0]["compliant"] is True
    assert latest(service.store, "is_prime")[0]["raw_output"] == fenced(code)


def test_legacy_completions_are_anchored_too(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    upstream.plan.append(GCD_RENAMED)
    body = served[0].post("/v1/completions", json={"model": "skyt/gcd", "prompt": "gcd"}).json()
    assert body["choices"][0]["text"] == CANON and body["object"] == "text_completion"


def test_a_retry_with_the_same_idempotency_key_gets_the_answer_on_record(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    client, _ = served
    headers = {"Idempotency-Key": "once"}
    upstream.plan.append(fenced(GCD_RENAMED))
    body = {"model": "skyt/gcd", "messages": ASK}
    first = client.post("/v1/chat/completions", json=body, headers=headers)
    asked = len(upstream.requests)
    again = client.post("/v1/chat/completions", json=body, headers=headers)
    assert again.json() == first.json() and again.headers["x-skyt-replayed"] == "true"
    assert len(upstream.requests) == asked
    other = client.post("/v1/chat/completions", json={**body, "seed": 1}, headers=headers)
    assert other.status_code == 409


def test_hostile_text_is_recorded_and_answered_as_it_is(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    client, service = served
    hostile = "\x00 \ud800 </script><script>alert(1)</script> ' OR 1=1 -- \u2028"
    upstream.plan.append(hostile)
    assert ask(client).json()["choices"][0]["message"]["content"] == hostile
    assert latest(service.store, "gcd", 1)[0]["raw_output"] == hostile


@pytest.mark.parametrize(
    "wrong",
    [{"n": 0}, {"n": "two"}, {"n": 10**9}, {"temperature": -1}, {"temperature": "hot"}, {"model": 3, "x": 1}],
)
def test_wrong_values_we_depend_on_are_a_400(
    served: tuple[httpx.Client, Service], wrong: dict[str, Any]
) -> None:
    body = {"model": "m", "messages": ASK, **wrong}
    response = served[0].post("/v1/chat/completions", json=body, headers={"x-skyt-contract": "gcd"})
    assert response.status_code == 400 and response.json()["error"]["param"] in wrong


def test_samples_from_before_the_canon_are_measured_against_it_later(
    served: tuple[httpx.Client, Service],
) -> None:
    _, service = served
    assert service.store.unsettled("gcd") == []
    oldest = latest(service.store, "gcd", 200)[-1]
    assert oldest["sample_id"] == "000000" and oldest["canon_signature"] is not None
    assert 0.0 < oldest["d_pre"] < 1.0


def test_enforce_asks_again_until_compliant_and_answers_422_with_the_counterexample_otherwise(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with (
        start(policy={"mode": "enforce", "attempts": 3}) as (url, service),
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        upstream.plan.extend([fenced(GCD_WRONG), fenced(GCD)])
        good = ask(client, seed=5)
        assert good.status_code == 200 and good.json()["skyt"]["attempts"] == 2
        assert good.json()["usage"]["total_tokens"] == 24
        assert upstream.requests[-1]["body"]["seed"] == 6
        upstream.plan.extend([fenced(GCD_WRONG)] * 3)
        bad = ask(client)
        assert bad.status_code == 422
        assert "gcd(48, 18)" in bad.json()["error"]["message"] and bad.json()["skyt"]["attempts"] == 3
        assert len(latest(service.store, "gcd", 50)) == 5
        upstream.plan.extend([fenced(GCD_WRONG), fenced(GCD)])
        both = ask(client, n=2)
        assert both.status_code == 200 and len(both.json()["choices"]) == 2


def test_retry_asks_again_and_returns_the_last_output_if_none_complied(
    start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    policies = {"gcd": {"on_failure": "retry", "attempts": 2}}
    with start(policies=policies) as (url, service), httpx.Client(base_url=url, timeout=30) as client:
        upstream.plan.extend([fenced(GCD_WRONG), fenced(GCD)])
        good = ask(client, seed=5)
        assert good.headers["x-skyt-outcome"] == "retried" == good.json()["skyt"]["outcome"]
        assert good.headers["x-skyt-attempts"] == "2" and good.headers["x-skyt-compliant"] == "true"
        assert [upstream.requests[at]["body"]["seed"] for at in (-2, -1)] == [5, 6]
        upstream.plan.append(fenced(GCD))
        asked = len(upstream.requests)
        once = ask(client)
        assert once.headers["x-skyt-outcome"] == "complied" and len(upstream.requests) == asked + 1
        upstream.plan.extend([fenced(GCD_WRONG), fenced(GCD_WRONG + "  # really")])
        last = ask(client)
        assert last.status_code == 200 and last.headers["x-skyt-outcome"] == "returned"
        assert "really" in last.json()["choices"][0]["message"]["content"]
        assert last.headers["x-skyt-compliant"] == "false" and last.json()["skyt"]["samples"][0]["sample_id"]
        recorded = latest(service.store, "gcd", 50)[::-1]
        assert [sample["attempt"] for sample in recorded] == [1, 2, 1, 1, 2]
        assert {sample["usage"]["completion_tokens"] for sample in recorded} == {7}
        assert last.json()["skyt"]["usage"] == {"prompt_tokens": 10, "completion_tokens": 14}
        metrics = client.get("/metrics").text
        assert 'skyt_outcomes_total{contract="gcd",outcome="returned"} 1.0' in metrics
        assert 'skyt_tokens_total{contract="gcd",kind="completion"} 35.0' in metrics


def test_an_output_that_does_not_comply_says_so_where_the_policy_returns_it(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream
) -> None:
    upstream.plan.append("Sorry, I cannot help with that.")
    answer = ask(served[0])
    assert answer.status_code == 200 and answer.headers["x-skyt-outcome"] == "returned"
    assert answer.headers["x-skyt-compliant"] == "false" and answer.json()["skyt"]["attempts"] == 1


def test_a_cost_that_the_endpoint_reports_is_added_up(
    start: Callable[..., Any], upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import scripted

    def priced(text: str, body: dict[str, Any], chat: bool = True) -> dict[str, Any]:
        whole = completion(text, body, chat)
        return {**whole, "usage": {**whole["usage"], "cost": 0.25, "prompt_tokens": "many"}}

    monkeypatch.setattr(scripted, "completion", priced)
    with start(policy={"on_failure": "retry"}) as (url, service), httpx.Client(base_url=url) as client:
        upstream.plan.extend([fenced(GCD_WRONG), fenced(GCD)])
        told = ask(client, n=1).json()["skyt"]
        assert told["usage"] == {"completion_tokens": 14, "cost": 0.5}
        assert [sample["usage"]["cost"] for sample in latest(service.store, "gcd", 9)] == [0.25, 0.25]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": "text"},
        {"messages": None},
        {"messages": {"role": "user", "content": "x"}},
        {"messages": ["text"]},
        {"messages": [{"content": "x"}]},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
        {"messages": [{"role": "user", "content": "x"}, 7]},
    ],
)
def test_an_anchored_request_without_a_question_is_400_and_nothing_goes_upstream(
    served: tuple[httpx.Client, Service], upstream: ScriptedUpstream, body: dict[str, Any]
) -> None:
    before = len(upstream.requests)
    for path in ("chat/completions", "completions"):
        answer = served[0].post(f"/v1/{path}", json={"model": "skyt/gcd", **body})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"].startswith(("messages", "prompt"))
    assert len(upstream.requests) == before
