"""OpenTelemetry spans (extra `otel`): one per request, and in it the upstream's attempts, judging, recording.

`tracing: true` sends them where the usual OTEL_… variables say; under `opentelemetry-instrument` they go
where that sends everything. Without the extra a span is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal

from homeostat.core.errors import UserError

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:
    trace = None


# Fields of a request's log line that tracing has names of its own for.
_NAMES = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
}


def named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a log line as attributes of a span."""
    return {_NAMES.get(name, f"skyt.{name}"): value for name, value in fields.items()}


class Span:
    """A span that is being timed, or nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, attributes: Mapping[str, Any], name: str | None = None) -> None:
        """Add attributes, and perhaps a better name."""
        if self._span is not None:
            self._span.set_attributes({key: value for key, value in attributes.items() if value is not None})
            if name is not None:
                self._span.update_name(name)


@contextmanager
def span(
    name: str,
    kind: Literal["SERVER", "CLIENT", "INTERNAL"] = "INTERNAL",
    received: Mapping[str, str] | None = None,
) -> Iterator[Span]:
    """Time a piece of work; `received` are headers that may name the caller's span."""
    if trace is None:
        yield Span()
        return
    context = None if received is None else propagate.extract(received)
    tracer = trace.get_tracer("skyt.serve")
    with tracer.start_as_current_span(name, context, kind=getattr(trace.SpanKind, kind)) as current:
        yield Span(current)


def pass_on(headers: MutableMapping[str, str]) -> None:
    """Name the current span in the headers of a request."""
    if trace is not None:
        propagate.inject(headers)


def send_spans() -> None:
    """Begin to send spans with OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise UserError(f"tracing: {error.name} is missing: pip install 'homeostat-llm[otel]'") from None
    provider = TracerProvider(resource=Resource.create({"service.name": "skyt"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def flush() -> None:
    """Send what has not been sent, before the process ends."""
    if trace is not None:
        provider: Any = trace.get_tracer_provider()
        if hasattr(provider, "force_flush"):  # not of the one that drops everything
            provider.force_flush(2_000)
