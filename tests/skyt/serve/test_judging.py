"""Samples that take too long: nobody waits for them, they are recorded as not judged, SIGTERM still ends."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import tests.support.stuck_distance  # noqa: F401 - registers the distance `stuck`
from tests.skyt.serve.test_operations import Process
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

from skyt.serve.service import Service

STUCK = fenced(GCD_WRONG.replace("return 1", 'return "STUCK"'))
STUCK_FOR_GOOD = fenced(GCD_WRONG.replace("return 1", 'return "STUCK_FOR_GOOD"'))
BODY = {"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]}
LIMITS = {"judge_s": 2.0, "judge_busy_s": 0.3, "slow_judges": 1, "shutdown_s": 4.0}


@pytest.fixture(scope="module")
def running(start: Callable[..., Any], upstream: ScriptedUpstream) -> Iterator[tuple[str, Service]]:
    with start(limits=LIMITS, measure={"distance": "stuck"}) as (url, service):
        ask(url, upstream, fenced(GCD))  # fixes the canon
        yield url, service


def ask(url: str, upstream: ScriptedUpstream, text: str) -> dict[str, Any]:
    upstream.plan.append(text)
    answer = httpx.post(f"{url}/v1/chat/completions", json=BODY, timeout=30)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("text", [STUCK, STUCK_FOR_GOOD])
def test_a_sample_over_its_time_is_answered_as_it_came_and_recorded_as_not_judged(
    running: tuple[str, Service], upstream: ScriptedUpstream, text: str
) -> None:
    url, service = running
    answer = ask(url, upstream, text)
    assert answer["choices"][0]["message"]["content"] == text
    [told] = answer["skyt"]["samples"]
    assert told["judged"] is False and told["evidence"] == "none" and not told["compliant"]
    assert "not judged: over 2 s" in told["reason"]
    from skyt.serve.database.live import latest

    [sample] = latest(service.store, "gcd", 1)
    assert sample["judged"] is False and sample["d_post"] == 1.0
    assert sample["oracle_pre"]["failures"] == [told["reason"]]
    # The judge, or its successor, goes on.
    assert ask(url, upstream, fenced(GCD_RENAMED))["skyt"]["samples"][0]["evidence"] == "rewritten"
    assert 'skyt_not_judged_total{contract="gcd"}' in httpx.get(f"{url}/metrics").text


def test_a_hostile_program_is_judged_like_any_other_and_others_do_not_wait_for_it(
    running: tuple[str, Service], upstream: ScriptedUpstream
) -> None:
    url, _ = running
    slow = threading.Thread(target=ask, args=(url, upstream, STUCK))
    slow.start()
    time.sleep(0.2)
    assert httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    assert slow.is_alive()
    fresh = fenced(GCD.replace("a, b", "p, q").replace("while b", "while q").replace("abs(a)", "abs(p)"))
    fresh = fresh.replace("q, a % b", "q, p % q")
    assert ask(url, upstream, fresh)["skyt"]["samples"][0]["judged"] is True
    slow.join()


@pytest.mark.parametrize("text", [STUCK, STUCK_FOR_GOOD])
def test_sigterm_ends_the_service_in_time_while_a_judge_is_stuck(tmp_path: Path, text: str) -> None:
    with ScriptedUpstream() as upstream:
        more = ["--set", "measure.distance=stuck", "--set", "limits.shutdown_s=4"]
        service = Process(upstream, tmp_path, more, module="tests.support.stuck_distance")
        ask(service.url, upstream, fenced(GCD))
        answers: list[dict[str, Any]] = []
        client = threading.Thread(target=lambda: answers.append(ask(service.url, upstream, text)))
        client.start()
        time.sleep(1.0)
        began = time.monotonic()
        service.stop(signal.SIGTERM)
        assert time.monotonic() - began < 4.0 + 0.5
        client.join(10)
        # Accepted before the end, so answered before the end.
        assert "the service is stopping" in answers[0]["skyt"]["samples"][0]["reason"]


def test_sigterm_ends_the_service_in_time_while_the_upstream_hangs(tmp_path: Path) -> None:
    with ScriptedUpstream() as upstream:
        more = ["--set", "limits.shutdown_s=3", "--set", "upstream.attempt_timeout_s=60"]
        service = Process(upstream, tmp_path, more)
        upstream.plan.append("!hang")
        client = threading.Thread(target=_ignored, args=(service.url,))
        client.start()
        time.sleep(1.0)
        began = time.monotonic()
        service.stop(signal.SIGTERM)
        assert time.monotonic() - began < 3.5
        client.join(10)


def _ignored(url: str) -> None:
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(f"{url}/v1/chat/completions", json=BODY, timeout=30)
