"""Submissions that are committed together: a refused one leaves no trace and costs the others nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.skyt.serve.database.conftest import VERSIONS, make_canon, make_sample

from skyt.serve.anchoring.recorder import Recorder, _Waiting
from skyt.serve.database.live import count
from skyt.serve.database.store import AlreadyAnswered, CanonMoved, Store, Submission


def test_a_batch_with_refused_submissions_records_the_others_and_numbers_them_without_a_gap(
    tmp_path: Path,
) -> None:
    store = Store.open(str(tmp_path / "s.sqlite"), VERSIONS)
    canon, other = make_canon("x"), make_canon("y")
    fixing = Submission("gcd", "m", 0.5, [make_sample("x", canon)], canon, fixes=True)
    known = replace(fixing, fixes=False)
    lost = Submission("gcd", "m", 0.5, [make_sample("y", other)], other, fixes=True)
    once = replace(known, idempotency=("k", "i", "0" * 64), answer=lambda placed: {"n": len(placed)})
    outcomes = asyncio.run(_committed(store, [fixing, lost, known, once, once, known]))
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [list, CanonMoved, list, list, AlreadyAnswered, list]
    placed = [outcome[0]["sample_id"] for outcome in outcomes if isinstance(outcome, list)]
    assert placed == ["000000", "000001", "000002", "000003"] and count(store) == 4
    assert outcomes[4].answer == {"n": 1}
    assert store.get("gcd") == canon
    store.close()


async def _committed(store: Store, submissions: list[Submission]) -> list[Any]:
    """What each gets if all of them wait at once."""
    recorder = Recorder(store)
    loop = asyncio.get_running_loop()
    waiting = [_Waiting(submission, loop, loop.create_future()) for submission in submissions]
    recorder._commit(waiting)
    outcomes = await asyncio.gather(*(one.future for one in waiting), return_exceptions=True)
    recorder.close()
    return outcomes
