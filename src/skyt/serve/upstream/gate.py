"""A bounded queue in front of the work: so many at once, so many waiting, and 429 for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skyt.serve.protocol.errors import busy
from skyt.serve.telemetry import Telemetry


class Gate:
    def __init__(self, active: int, waiting: int, telemetry: Telemetry | None = None) -> None:
        self._places = asyncio.Semaphore(active)
        self._most_waiting = waiting
        self._waiting = 0
        self._telemetry = telemetry

    @property
    def full(self) -> bool:
        return self._places.locked() and self._waiting >= self._most_waiting

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        if self.full:
            raise busy("as many requests are waiting as can be held")
        if self._places.locked():
            self._waiting += 1
            self._show()
            try:
                await self._places.acquire()
            finally:
                self._waiting -= 1
                self._show()
        else:
            await self._places.acquire()
        if self._telemetry:
            self._telemetry.active.inc()
        try:
            yield
        finally:
            self._places.release()
            if self._telemetry:
                self._telemetry.active.dec()

    def _show(self) -> None:
        if self._telemetry:
            self._telemetry.waiting.set(self._waiting)
