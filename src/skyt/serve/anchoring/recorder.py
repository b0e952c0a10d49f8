"""One writer thread: what many requests submit at the same time is committed in one transaction.

A request is answered after its samples are committed, so whatever a client saw is on record, and a process
that is killed loses nothing it has answered for.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from homeostat.core.errors import UserError
from skyt.records import Sample
from skyt.serve.database.store import AlreadyAnswered, CanonMoved, Store, Submission
from skyt.serve.protocol.errors import ApiError

_TOGETHER = 128  # submissions in a transaction
_REFUSALS = (CanonMoved, AlreadyAnswered, UserError)


@dataclass
class _Waiting:
    submission: Submission
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[Sample]]


class Recorder:
    """The only writer of samples in this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    async def record(self, submission: Submission) -> list[Sample]:
        """The samples at their places, once they are committed; or what kept them from being recorded."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(submission, loop, loop.create_future())
        self._queue.put(waiting)
        return await waiting.future

    def close(self) -> None:
        """Commit what is waiting, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            together = [self._queue.get()]
            while len(together) < _TOGETHER and together[-1] is not None:
                try:
                    together.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            stop = together[-1] is None
            self._commit([waiting for waiting in together if waiting is not None])
            if stop:
                return

    def _commit(self, together: list[_Waiting]) -> None:
        if not together:
            return
        try:
            try:
                outcomes = self._all_or_none(together)
            except _REFUSALS:  # seldom: find out whose it is
                outcomes = self._each(together)
        except Exception as error:  # whatever the database says: nothing was committed, everyone is told
            outcomes = [_unavailable(error)] * len(together)
        together[0].loop.call_soon_threadsafe(_deliver, together, outcomes)

    def _all_or_none(self, together: list[_Waiting]) -> list[Any]:
        """Without savepoints, which cost as much as the rows themselves."""
        with self._store.engine.begin() as connection:
            return [self._store.record(connection, waiting.submission) for waiting in together]

    def _each(self, together: list[_Waiting]) -> list[Any]:
        """One transaction, in which a submission that is refused leaves no trace."""
        outcomes: list[Any] = []
        with self._store.engine.begin() as connection:
            for waiting in together:
                try:
                    with connection.begin_nested():
                        outcomes.append(self._store.record(connection, waiting.submission))
                except _REFUSALS as found:
                    outcomes.append(found)
        return outcomes


def _deliver(together: list[_Waiting], outcomes: list[Any]) -> None:
    for waiting, outcome in zip(together, outcomes, strict=True):
        if waiting.future.done():
            continue
        if isinstance(outcome, BaseException):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)


def _unavailable(error: Exception) -> ApiError:
    what = type(getattr(error, "orig", None) or error).__name__
    known = isinstance(error, SQLAlchemyError)
    return ApiError(
        503 if known else 500,
        f"the sample could not be recorded ({what}), so it was not answered for",
        type="store_error",
        code="store_unavailable",
    )
