"""One canon per prompt, ensured by the database itself; samples and the canon they fix in one transaction."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests.skyt.serve.database.conftest import VERSIONS, make_canon, make_sample

from homeostat.core.errors import UserError
from skyt.canon import CanonImmutabilityError, CanonVersionError, Versions
from skyt.metrics.formulas import metrics as metrics_of
from skyt.metrics.formulas import tally_of
from skyt.records import Sample
from skyt.records.engine import open_database
from skyt.records.tables import archived_canons, canons, ledgers, metrics, samples, tables
from skyt.serve.database.live import count, history, latest, prune, standings, take_snapshot
from skyt.serve.database.store import AlreadyAnswered, CanonMoved, Store, Submission


def submit(store: Store, submission: Submission) -> list[Sample]:
    with store.engine.begin() as connection:
        return store.record(connection, submission)


def fixing(code: str, *others: str, **more: object) -> Submission:
    canon = make_canon(code)
    measured = [make_sample(text, canon) for text in (code, *others)]
    return Submission("gcd", "m", 0.5, measured, canon, fixes=True, **more)  # type: ignore[arg-type]


def test_the_first_submission_fixes_the_canon_with_its_samples(store: Store) -> None:
    placed = submit(store, fixing("x", "y"))
    assert [record["sample_id"] for record in placed] == ["000000", "000001"]
    assert {record["run_id"] for record in placed} == {"serve-0001.0000"}
    assert store.get("gcd") == make_canon("x")
    again = submit(store, replace(fixing("x"), fixes=False))
    assert again[0]["sample_id"] == "000002"


def test_a_second_candidate_is_told_that_the_canon_moved_and_leaves_no_trace(store: Store) -> None:
    submit(store, fixing("x"))
    with pytest.raises(CanonMoved):
        submit(store, fixing("y"))
    with pytest.raises(CanonMoved):
        submit(store, Submission("gcd", "m", 0.5, [make_sample("z", None)], None))
    assert store.get("gcd") == make_canon("x") and count(store) == 1
    assert submit(store, replace(fixing("x"), fixes=False))[0]["sample_id"] == "000001"


def test_two_processes_that_find_no_ledger_open_open_the_same_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL the other's ledger can be committed between the look for one and the opening of one."""
    late = Store(store.engine, VERSIONS)
    monkeypatch.setattr(late, "current_ledger", lambda connection: None)
    submit(store, fixing("x"))
    [placed] = submit(late, replace(fixing("x"), fixes=False))
    assert (placed["run_id"], placed["sample_id"]) == ("serve-0001.0000", "000001")
    store.archive("gcd", "me", "why")
    assert submit(store, fixing("y"))[0]["run_id"] == "serve-0002.0000"


def test_racing_threads_fix_exactly_one_canon_and_number_samples_without_gaps(store: Store) -> None:
    submit(store, Submission("other", "m", 0.5, [], None))
    barrier = threading.Barrier(8)
    won, moved = [], []

    def race(number: int) -> None:
        barrier.wait()
        for turn in range(5):
            code = f"program {number} {turn}"
            try:
                submit(store, fixing(code))
                won.append(code)
            except CanonMoved:
                canon = store.get("gcd")
                assert canon is not None
                submit(store, Submission("gcd", "m", 0.5, [make_sample(code, canon)], canon))
                moved.append(canon.normalized_code)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and set(moved) == set(won) and len(moved) == 39
    with store.reading() as connection:
        numbers = connection.execute(select(samples.c.number).order_by(samples.c.number)).scalars().all()
    assert numbers == list(range(40))


def test_a_canon_never_changes(store: Store) -> None:
    store.set(make_canon("x"))
    store.set(make_canon("x"))
    with pytest.raises(CanonImmutabilityError, match="never changes"):
        store.set(make_canon("y"))
    assert store.get("gcd") == make_canon("x")


def test_a_canon_of_another_version_is_refused_with_what_to_do(store: Store) -> None:
    store.set(make_canon("x"))
    later = Store(store.engine, Versions("2-test", "1-test"))
    with pytest.raises(CanonVersionError, match="--re-anchor gcd"):
        later.get("gcd")


def test_re_anchoring_archives_the_canon_and_begins_another_ledger(store: Store) -> None:
    submit(store, fixing("x"))
    assert store.archive("gcd") and not store.archive("nothing")
    assert store.get("gcd") is None
    placed = submit(store, fixing("y"))
    assert placed[0]["run_id"] == "serve-0002.0000" and placed[0]["sample_id"] == "000000"
    with store.reading() as connection:
        kept = connection.execute(select(archived_canons.c.canon_signature)).scalars().all()
    assert kept == [make_canon("x").canon_signature]


def test_an_answer_is_given_once_for_an_idempotency_key(store: Store) -> None:
    key = ("anyone", "key-1", "a" * 64)
    submit(store, fixing("x", idempotency=key, answer=lambda placed: {"id": placed[0]["sample_id"]}))
    with pytest.raises(AlreadyAnswered) as found:
        submit(store, replace(fixing("x"), fixes=False, idempotency=key))
    assert found.value.answer == {"id": "000000"} and count(store) == 1
    with pytest.raises(UserError, match="another request body"):
        submit(store, replace(fixing("x"), fixes=False, idempotency=("anyone", "key-1", "b" * 64)))


def test_samples_before_the_canon_wait_to_be_settled_and_keep_their_place(store: Store) -> None:
    submit(store, Submission("gcd", "m", 0.5, [make_sample("bad", None)], None))
    assert store.unsettled("gcd") == []  # no canon yet: d = 1 is right
    submit(store, fixing("x"))
    [(ledger, number, record)] = store.unsettled("gcd")
    canon = make_canon("x")
    settled = make_sample("bad", canon, 0.5).placed(
        record["run_id"], int(record["sample_id"]), record["sample"], record.timestamp
    )
    store.settle(ledger, [(number, settled)])
    assert store.unsettled("gcd") == []
    assert latest(store, "gcd")[-1]["d_pre"] == 0.5


def test_nul_and_surrogates_survive_the_database(store: Store) -> None:
    hostile = "\x00\ud800'; DROP TABLE canons; --"
    canon = make_canon("x")
    submit(store, replace(fixing("x"), measured=[make_sample(hostile, canon)]))
    assert latest(store, "gcd")[0]["raw_output"] == hostile


def test_live_metrics_are_the_metrics_of_the_samples(store: Store) -> None:
    submit(store, fixing("x", "y", "y", "y"))
    [standing] = standings(store, tau=0.3)
    tally = tally_of(["x", "y", "y", "y"], [0, 0.25, 0.25, 0.25], [0, 0.25, 0.25, 0.25], 0.3)
    assert standing.metrics == metrics_of(tally, 0.3)
    assert standing.metrics.R_raw == 0.75 and standing.metrics.R_anchor == 0.25
    assert take_snapshot(store, 0.3) == 1 and take_snapshot(store, 0.3) == 0
    assert history(store, "gcd")[0]["R_raw"] == 0.75


def test_pruning_deletes_samples_and_never_a_canon_or_a_snapshot(store: Store) -> None:
    submit(store, fixing("x", *("y" * n for n in range(2, 9))))
    take_snapshot(store)
    assert prune(store, keep=3) == 5 and count(store) == 3
    assert [sample["sample_id"] for sample in latest(store, "gcd")] == ["000007", "000006", "000005"]
    assert prune(store, days=1) == 0
    assert prune(store, days=1e-9) == 3
    with store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(canons)).scalar() == 1
        assert connection.execute(select(func.count()).select_from(metrics)).scalar() == 1
    assert submit(store, replace(fixing("x"), fixes=False))[0]["sample_id"] == "000008"


def test_a_database_of_other_tables_is_refused_in_one_line(url: str) -> None:
    engine = open_database(url)
    with engine.begin() as connection:
        connection.execute(tables.update().values(version=99))
    engine.dispose()
    with pytest.raises(UserError, match="tables of version 99, this program has 2: export it") as caught:
        open_database(url)
    assert "\n" not in str(caught.value)


def test_a_new_database_opened_by_many_at_once_gets_its_tables_once(url: str) -> None:
    problems: list[Exception] = []

    def open_it() -> None:
        try:
            open_database(url).dispose()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    opened = Store.open(url, VERSIONS)
    with opened.reading() as connection:
        assert connection.execute(select(func.count()).select_from(ledgers)).scalar() == 0
    opened.close()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("/no/such/folder/x.sqlite", "no such folder"),
        ("mysql://x/y", "postgresql://"),
        ("postgresql://nobody@127.0.0.1:1/x", "cannot open the database"),
    ],
)
def test_a_database_that_cannot_be_opened_is_one_clear_line(where: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_database(where)


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_text("this is not a database, it is a long enough line of text to be read as a header")
    with pytest.raises(UserError, match="cannot open"):
        open_database(str(path))


def test_a_new_sqlite_file_is_for_its_owner_only(tmp_path: Path) -> None:
    open_database(str(tmp_path / "x.sqlite")).dispose()
    assert (tmp_path / "x.sqlite").stat().st_mode & 0o077 == 0
