"""A database written by the version before is brought up to date when it is opened, with nothing lost."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import select

from skyt import records
from skyt.canon import CanonVersionError, Versions
from skyt.metrics.summary import summarise_again
from skyt.runs.assess import versions
from skyt.serve.cli import canon_commands
from skyt.serve.database.keys import match, valid_keys
from skyt.serve.database.live import count, history, standings
from skyt.serve.database.store import Store
from skyt.serve.database.tables import runs
from skyt.serve.database.transfer import export

DUMP = Path(__file__).parents[3] / "data" / "earlier" / "database.sql"
THEN = Versions("1-py3.11", "2-py3.11")  # of the program that wrote it


@pytest.fixture
def path(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "earlier.sqlite") as connection:
        connection.executescript(DUMP.read_text())
    return str(tmp_path / "earlier.sqlite")


def test_everything_in_an_earlier_database_is_there_after_the_migration(path: str) -> None:
    before = sqlite3.connect(path)
    [(samples,)] = before.execute("select count(*) from samples").fetchall()
    [(record,)] = before.execute("select record from canons").fetchall()
    before.close()
    store = Store.open(path, THEN)
    assert count(store) == samples == 5
    canon = store.get("gcd")
    assert canon is not None and json.loads(record)["canon_signature"] == canon.canon_signature
    [standing] = standings(store)
    assert standing.metrics.N == 5 and standing.versions["oracle_version"] == "2-py3.11"
    assert standing.versions["distance_version"] is None  # what was not recorded is not made up
    assert history(store, "gcd")[0]["oracle_version"] is None
    key = match("skyt-earlier", valid_keys(store))
    assert key is not None and key.contracts == {"gcd"} and not key.manages and key.per_minute is None
    assert store.events("gcd") == []
    store.close()
    again = Store.open(path, THEN)  # a second opening finds nothing to do
    assert count(again) == 5
    again.close()


def test_an_earlier_ledger_is_exported_with_the_versions_it_has(path: str, tmp_path: Path) -> None:
    store = Store.open(path, THEN)
    export(store, tmp_path / "out")
    store.close()
    rows = list(records.read_rows(tmp_path / "out" / records.PRE))
    assert {row["oracle_version"] for row in rows} == {"2-py3.11"}
    assert {row["distance_version"] for row in rows} == {""}
    summarise_again(tmp_path / "out")


def test_its_canon_is_used_or_the_way_to_go_on_is_named_in_one_line(path: str, tmp_path: Path) -> None:
    store = Store.open(path, Versions("1-py3.11", "of-tomorrow"))
    with pytest.raises(CanonVersionError, match=r"--re-anchor gcd.*canon approve DATABASE gcd") as caught:
        store.get("gcd")
    assert "\n" not in str(caught.value)
    store.close()


def test_its_canon_can_be_approved_for_today(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    from skyt.sandbox import capability

    if not capability().contained:
        pytest.skip("this machine cannot contain code")
    canon_commands.approve(path, "gcd", why="migrated")
    store = Store.open(path, versions())
    assert store.get("gcd") is not None
    assert [event.why for event in store.events("gcd")] == ["migrated"]
    store.close()
    canon_commands.history(path, "gcd")
    assert "migrated" in capsys.readouterr().out


def test_new_samples_of_an_earlier_database_begin_a_run_of_their_own(path: str) -> None:
    store = Store.open(path, THEN)
    with store.reading() as connection:
        found = connection.execute(select(runs.c.run_id, runs.c.distance_version)).all()
    assert [tuple(row) for row in found] == [("serve-0001.0000", None)]
    store.close()
