"""Eight processes of fifty requests each, racing for a new canon on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.support.postgres import MISSING, postgres
from tests.support.scripted import ScriptedUpstream, fenced

from skyt.records.tables import canons, samples
from skyt.runs.judging.assess import versions
from skyt.serve.database.store import Store

pytestmark = pytest.mark.slow  # seconds of eight processes
PROCESSES, REQUESTS = 8, 50


def own_program(body: dict[str, Any]) -> str:
    """Every process writes gcd with names of its own; a few outputs are wrong."""
    process, turn = body["user"].removeprefix("p").split("_")
    if int(turn) % 10 == 3:
        return fenced("def gcd(a, b):\n    return 1")
    x, y = f"x{process}", f"y{process}"
    return fenced(
        f"def gcd({x}, {y}):\n    while {y}:\n        {x}, {y} = {y}, {x} % {y}\n    return abs({x})"
    )


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, tuple[str, list[dict[str, Any]]]]]:
    with contextlib.ExitStack() as stack:
        databases = {"sqlite": str(tmp_path_factory.mktemp("race") / "race.sqlite")}
        with contextlib.suppress(pytest.skip.Exception):
            databases["postgresql"] = stack.enter_context(postgres())
        upstream = stack.enter_context(ScriptedUpstream(own_program))
        command = [sys.executable, str(Path(__file__).parents[2] / "support" / "racer.py"), upstream.base_url]
        command += [str(PROCESSES), str(REQUESTS), *databases.values()]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=250, check=True)
        parts = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(parts) == PROCESSES
        yield {
            kind: (url, [answer for part in parts for answer in part[at]])
            for at, (kind, url) in enumerate(databases.items())
        }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_one_canon_wins_and_every_answer_is_consistent_with_it(
    results: dict[str, tuple[str, list[dict[str, Any]]]], kind: str
) -> None:
    if kind not in results:
        pytest.skip(MISSING)
    url, answers = results[kind]
    assert Counter(answer["status"] for answer in answers) == {200: PROCESSES * REQUESTS}
    store = Store.open(url, versions())
    with store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(canons)).scalar() == 1
        numbers = connection.execute(select(samples.c.number).order_by(samples.c.number)).scalars().all()
    canon = store.get("gcd")
    assert canon is not None and numbers == list(range(PROCESSES * REQUESTS))
    assert store.unsettled("gcd") == []
    store.close()
    replaced = 0
    for answer in answers:
        [sample], [choice] = answer["skyt"]["samples"], answer["choices"]
        assert answer["skyt"]["canon_signature"] in (canon.canon_signature, None)
        assert sample["replaced"] == (sample["d_post"] == 0.0) == sample["compliant"]
        if sample["replaced"]:
            replaced += 1
            assert choice["message"]["content"] == f"```python\n{canon.normalized_code}\n```"
    assert replaced == PROCESSES * REQUESTS * 9 // 10
