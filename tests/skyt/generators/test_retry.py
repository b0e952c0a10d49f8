"""Asking an endpoint again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from skyt.generators import retry
from skyt.generators.retry import LONGEST_S, asked_again, may_pass, retry_after


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(retry.asyncio, "sleep", sleep)
    yield pauses


def ask(results: list[float | None], *, left: float = 1e9) -> float | None:
    """Ask for results that say themselves how long to wait; None is final."""
    given = iter(results)

    async def attempt() -> float | None:
        return next(given)

    jitter = random.Random(1)
    return asyncio.run(
        asked_again(attempt, lambda wish: wish, retries=5, backoff_s=1.0, jitter=jitter, left=lambda: left)
    )


def test_waits_double_with_jitter_until_a_result_is_final(waits: list[float]) -> None:
    assert ask([0.0, 0.0, 0.0, None, 0.0]) is None
    assert len(waits) == 3
    assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(waits))


def test_the_server_may_ask_for_a_longer_wait_up_to_a_minute(waits: list[float]) -> None:
    ask([9.0, 1e6, None])
    assert waits == [9.0, LONGEST_S]


def test_the_last_result_comes_back_when_retries_or_time_are_used_up(waits: list[float]) -> None:
    assert ask([0.0] * 6) == 0.0 and len(waits) == 5
    waits.clear()
    assert ask([7.0, None], left=6.0) == 7.0 and waits == []


def test_what_may_pass_and_how_long_to_wait_are_read_off_an_answer() -> None:
    assert all(map(may_pass, (408, 429, 500, 503, 529))) and not any(map(may_pass, (200, 400, 401, 404, 422)))
    assert [retry_after(text) for text in ("3", "-1", None, "Wed, 21 Oct 2015 07:28:00 GMT")] == [3, 0, 0, 0]
