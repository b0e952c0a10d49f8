"""Schemathesis on the endpoint's own description: whatever is sent, no answer is a 5xx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="the `serve-test` extra is not installed")

EVERYTHING = ["/v1/chat/completions", "/v1/completions", "/v1/models", "/healthz", "/metrics"]
EVERYTHING += ["/v1/models/skyt/{contract}", "/api/status", "/api/samples", "/api/history"]
EVERYTHING += ["/api/canon", "/api/canon/approve", "/api/canon/re-anchor"]


def test_no_generated_request_gets_a_5xx_and_answers_are_as_described(start: Callable[..., Any]) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance]
    checks.append(response_schema_conformance)
    seen: dict[str, set[int]] = {}
    with start() as (url, _):
        described = schemathesis.openapi.from_url(f"{url}/openapi.json")
        for found in described.get_all_operations():
            operation = found.ok()
            every = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
            broken = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
            examples = 15 if operation.method == "post" else 6

            @settings(
                max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
            )
            @given(case=every | broken)
            def answered(case: Any) -> None:
                response = case.call_and_validate(checks=checks)
                seen.setdefault(case.operation.path, set()).add(response.status_code)

            answered()
    assert sorted(seen) == sorted(EVERYTHING)
    assert {200, 400} <= seen["/v1/chat/completions"] | seen["/v1/completions"]
