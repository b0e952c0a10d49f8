"""The guard refuses to pretend: where it cannot do what it says, it says so in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cachemedicpp.engines.blocks.plan import RequestStep, Tables
from cachemedicpp.engines.settings import EngineFacts, GuardSettings, refuse
from homeostat.core.errors import UserError

FINE = EngineFacts(
    failure_policy="recompute",
    cache_groups=1,
    block_size=32,
    cache_dtype="torch.float32",
    device="cpu",
    runner="v1",
    async_scheduling=False,
    speculative=False,
    ranks=1,
    attention="full",
    step_tokens=4096,
    step_requests=256,
    chunk=0,
)


def test_a_plain_engine_on_cpu_is_accepted() -> None:
    refuse(FINE, GuardSettings())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"failure_policy": "fail"}, "kv_load_failure_policy"),
        ({"cache_groups": 2}, "2 KV cache groups"),
        ({"attention": "a MLAAttentionSpec"}, "MLAAttentionSpec"),
        ({"speculative": True}, "speculative"),
        ({"async_scheduling": True}, "--no-async-scheduling"),
        ({"chunk": 16}, "long_prefill_token_threshold = 16"),
        ({"step_tokens": 256}, "raise it to 288"),
        ({"device": "cuda"}, "'cuda'"),
        ({"runner": "v2"}, "'v2'"),
        ({"ranks": 2}, "2 parallel ranks"),
    ],
)
def test_what_was_not_tried_or_cannot_work_is_refused_in_one_line(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        refuse(replace(FINE, **change), GuardSettings())
    assert says in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("change", [{"device": "cuda"}, {"runner": "v2"}, {"ranks": 2}])
def test_what_was_only_not_tried_starts_when_asked(change: dict[str, Any]) -> None:
    refuse(replace(FINE, **change), GuardSettings.read({"untried": True}))
    with pytest.raises(UserError):
        refuse(replace(FINE, failure_policy="fail", **change), GuardSettings.read({"untried": True}))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mode": "pagd"}, "did you mean 'paged'"),
        ({"evry": 3}, "did you mean 'every'"),
        ({"every": "3"}, "must be int"),
        ({"every": -1}, "must not be negative"),
        ({"mode": "store"}, "store (a folder)"),
        ({"store": "x"}, "store (a folder)"),
        ({"mode": "wrap"}, "inner"),
        ({"plausible": "nowhere"}, "homeostat cache calibrate"),
        ({"plausible_every": 0}, "at least 1"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        GuardSettings.read(given)
    assert says in str(refused.value)


def test_tables_that_differ_from_the_schedulers_are_noticed() -> None:
    tables = Tables(32)
    (span,) = tables.spans([RequestStep("a", (4, 9), 32, 40, admitted=True)])
    assert list(span.reads()) == [(4, 32)] and [tuple(w) for w in span.writes()] == [(9, 1, 0, 8)]
    with pytest.raises(ValueError, match="differ"):
        tables.spans([RequestStep("a", (), 64, 65)])
