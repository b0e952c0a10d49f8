"""Spans of a request: its parts hang together, also with the caller's span and the upstream's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.scripted import GCD, GCD_WRONG, ScriptedUpstream, fenced

from homeostat.core.errors import UserError
from skyt.serve import tracing

BODY = {"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]}
CALLER = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def exported() -> Iterator[Any]:
    pytest.importorskip("opentelemetry.sdk", reason="the `otel` extra is not installed")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter


def test_a_request_is_one_span_with_its_parts_in_it(
    exported: Any, start: Callable[..., Any], upstream: ScriptedUpstream
) -> None:
    with start(policy={"on_failure": "retry"}) as (url, _):
        upstream.plan.extend(["!500", fenced(GCD_WRONG), fenced(GCD)])
        headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
        assert httpx.post(f"{url}/v1/chat/completions", json=BODY, headers=headers).status_code == 200
    spans = exported.get_finished_spans()
    [request] = [span for span in spans if span.name == "POST /v1/chat/completions"]
    assert {f"{span.context.trace_id:032x}" for span in spans} == {CALLER}
    parts = [span.name for span in spans if span.parent.span_id == request.context.span_id]
    assert parts == ["upstream", "upstream", "judge", "record", "upstream", "judge", "record"]
    about = dict(request.attributes)
    assert about["http.response.status_code"] == 200 and about["skyt.outcome"] == "retried"
    assert about["skyt.contract"] == "gcd" and about["gen_ai.usage.output_tokens"] == 14
    sent = upstream.requests[-1]["headers"]["traceparent"].split("-")
    assert sent[1] == CALLER and sent[2] in {f"{span.context.span_id:016x}" for span in spans}


def test_without_the_extra_a_span_is_nothing_and_asking_for_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setattr(tracing, "trace", None)
    with tracing.span("upstream", "CLIENT") as current:
        current.note({"a": 1})
    headers: dict[str, str] = {}
    tracing.pass_on(headers)
    assert headers == {}
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UserError, match=r"pip install 'homeostat-llm\[otel\]'"):
        tracing.send_spans()
