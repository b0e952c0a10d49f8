"""Asking an endpoint again: which failures may pass, and how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

LONGEST_S = 60.0  # of a wait
T = TypeVar("T")


def may_pass(status: int) -> bool:
    """Whether an answer with this HTTP status may be another one next time."""
    return status in (408, 409, 425, 429) or status >= 500


async def asked_again(
    attempt: Callable[[], Awaitable[T]],
    wish: Callable[[T], float | None],
    *,
    retries: int,
    backoff_s: float,
    jitter: random.Random,
    left: Callable[[], float] = lambda: math.inf,
) -> T:
    """The first final result of `attempt`, or the last one when the retries or the time `left` are used up.

    `wish` is None for a result that is final; else the seconds that the endpoint asks to wait, 0 if it says
    nothing. Waits double, with jitter between half and all of them, and are never less than that.
    """
    for number in range(retries + 1):
        result = await attempt()
        asked = wish(result)
        if asked is None or number == retries:
            break
        doubled = min(LONGEST_S, backoff_s * 2.0**number)
        pause = min(LONGEST_S, max(doubled * (0.5 + 0.5 * jitter.random()), asked))
        if pause >= left():
            break
        await asyncio.sleep(pause)
    return result


def retry_after(header: str | None) -> float:
    """The seconds that a `Retry-After` header asks to wait; 0 for none, or for a date."""
    try:
        return max(0.0, float(header or 0.0))
    except ValueError:
        return 0.0
