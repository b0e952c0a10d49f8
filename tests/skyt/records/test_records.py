"""The store of a run: all of a sample or nothing, whoever is killed or races; the files written from it."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.rows import cell, read_rows, sample

from homeostat.core.errors import UserError
from homeostat.core.records import RecordError
from skyt import records
from skyt.records import RunStore, check_files, write_files

FILES = (records.PRE, records.POST, records.REPAIRS)


def ids(path: Path) -> list[str]:
    return [row["sample_id"] for row in read_rows(path)]


def test_the_columns_are_the_fixed_ones_with_the_versions_after_them() -> None:
    added = {"runs.csv": 1, "distances_pre.csv": 2, "distances_post.csv": 2}
    fixed = {name: ",".join(columns[: -added.get(name, 3)]) for name, columns in records.COLUMNS.items()}
    assert fixed["runs.csv"] == (
        "run_id,prompt_id,mode,timestamp,model,temperature,seed,oracle_version,normalization_version,contract_id"
    )
    distance = "run_id,sample_id,prompt_id,stage,signature,d,compliant,normalization_version,timestamp"
    assert fixed["distances_pre.csv"] == distance
    assert fixed["distances_post.csv"] == distance
    assert fixed["repairs.csv"] == (
        "run_id,sample_id,before_signature,after_signature,d_before,d_after,steps,success,reason,timestamp"
    )
    assert fixed["metrics_summary.csv"] == (
        "prompt_id,N,R_raw,R_anchor,mu_pre,mu_post,delta_R_anchor,delta_mu,P_tau_pre,P_tau_post,delta_P_tau,"
        "rescue_rate,tau"
    )
    for name, columns in records.COLUMNS.items():
        assert {"oracle_version", "normalization_version", "distance_version"} <= set(columns), name


def add(store: RunStore, text: str = "x") -> None:
    store.append([cell()], [("r.0000", sample(text, 1 / 3, 0.1 + 0.2))], numbered=True)


def test_a_sample_has_one_row_in_each_file_at_full_precision(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for _ in range(2):
            add(store)
        assert store.count() == 2
        write_files(store)
        check_files(store)
    assert [row["d"] for row in read_rows(tmp_path / "distances_pre.csv")] == [repr(1 / 3)] * 2
    assert [row["d"] for row in read_rows(tmp_path / "distances_post.csv")] == ["0.30000000000000004"] * 2
    assert ids(tmp_path / "repairs.csv") == ["000000", "000001"]
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["sample"] for line in lines] == [0, 1]


def test_names_with_commas_quotes_and_line_breaks_stay_in_their_column(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for _ in range(2):  # the same cell once more: nothing new
            store.append([cell(model='a "b",\nc')], [])
        write_files(store)
    (found,) = read_rows(tmp_path / "runs.csv")
    assert found["model"] == 'a "b", c'
    assert found["seed"] == ""


def test_a_record_that_does_not_fit_its_schema_is_not_written(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        with pytest.raises(RecordError, match="evidence"):
            store.append([cell()], [("r.0000", sample()), ("r.0000", sample(evidence="hope"))])
        assert store.count() == 0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"d_post": 0.9}, "repair_is_monotone"),
        ({"canon_signature": None}, "without_a_canon_d_is_1"),
        ({"signature_pre": "a" * 64, "canon_signature": "a" * 64}, "d_pre_is_0_for_the_canon_alone"),
        ({"evidence": "identical"}, "d_0_has_evidence"),
    ],
)
def test_a_sample_that_breaks_a_rule_is_refused_by_the_database(
    tmp_path: Path, changes: dict[str, object], rule: str
) -> None:
    with RunStore(tmp_path) as store:
        with pytest.raises(UserError, match=rule):
            store.append([cell()], [("r.0000", sample(**changes))])
        assert store.count() == 0


def test_a_file_that_says_something_else_is_refused_and_every_file_stays(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        add(store)
        write_files(store)
        add(store, "y")
        path = tmp_path / records.POST
        text = path.read_text()
        path.write_text(text.replace("0.30000000000000004", "0.1"))
        before = {file: file.read_bytes() for file in tmp_path.glob("*.csv")}
        with pytest.raises(UserError, match=r"distances_post\.csv, line 2: d = '0.1', where records\.sqlite"):
            write_files(store)
        assert {file: file.read_bytes() for file in tmp_path.glob("*.csv")} == before
        path.write_text(text.replace("\n", "\r\n"), newline="")  # the same, as other programs write it
        write_files(store)
    assert ids(path) == ["000000", "000001"]


def test_a_row_too_many_or_too_few_and_other_columns_are_refused_by_line(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for _ in range(3):
            add(store)
        write_files(store)
        path = tmp_path / records.PRE
        lines = path.read_text().splitlines(keepends=True)
        for changed, message in (
            ([*lines, lines[-1]], "line 5: .*no such row"),
            ([lines[0], *lines[2:]], "line 2: sample_id = '000001'"),
            (["run_id,prompt\n", *lines[1:]], "line 1: sample_id = 'prompt'"),
        ):
            path.write_text("".join(changed))
            with pytest.raises(UserError, match=message):
                check_files(store)


def test_a_full_disk_is_one_line_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        add(store)
        with store.reading() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        with pytest.raises(UserError, match=r"cannot write records in .*full") as caught:
            add(store, "x" * 100_000)
        assert "\n" not in str(caught.value)
        assert store.count() == 1
    with RunStore(tmp_path) as store:
        add(store)
        assert [s["sample_id"] for s in store.samples()] == ["000000", "000001"]


def test_a_run_of_an_earlier_version_is_told_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is it the folder of a skyt run"):
        RunStore.existing(tmp_path)
    (tmp_path / "samples.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"earlier version.*code replay .*samples\.jsonl"):
        RunStore.existing(tmp_path)


def test_archived_records_are_whole_and_the_store_begins_anew(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        add(store)
        add(store)
        assert store.archive(tmp_path / "old") == 2
        assert store.count() == 0
        add(store)
        assert [s["sample_id"] for s in store.samples()] == ["000000"]
    with RunStore.existing(tmp_path / "old") as store:
        assert [s["sample_id"] for s in store.samples()] == ["000000", "000001"]


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("full", 2)])
def test_full_durability_syncs_every_commit(tmp_path: Path, durability: str, synchronous: int) -> None:
    with RunStore(tmp_path, durability) as store, store.reading() as connection:  # type: ignore[arg-type]
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous


def _append_many(folder: Path, times: int) -> None:
    with RunStore(folder) as store:
        for _ in range(times):
            add(store)


def test_appends_from_many_processes_never_mix_or_repeat(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append_many, args=(tmp_path, 25)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with RunStore(tmp_path) as store:
        write_files(store)
    expected = [f"{number:06d}" for number in range(200)]
    for name in FILES:
        assert ids(tmp_path / name) == expected
    with (tmp_path / records.REPAIRS).open(newline="") as file:
        assert all(len(row) == len(records.COLUMNS[records.REPAIRS]) for row in csv.reader(file))


def test_a_writer_killed_at_any_moment_leaves_all_of_a_sample_or_nothing(tmp_path: Path) -> None:
    context, count = multiprocessing.get_context("fork"), 0
    with RunStore(tmp_path):
        pass
    for attempt in range(8):
        worker = context.Process(target=_append_many, args=(tmp_path, 10_000))
        worker.start()
        with closing(sqlite3.connect(tmp_path / records.STORE)) as looking:
            while looking.execute("SELECT count(*) FROM samples").fetchone()[0] <= count:
                time.sleep(0.001)
        time.sleep(0.005 * attempt)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        with RunStore(tmp_path) as store:
            samples = [s["sample_id"] for s in store.samples()]
            assert samples == [f"{number:06d}" for number in range(store.count())]
            count = store.count()
            write_files(store)
        for name in FILES:
            assert ids(tmp_path / name) == samples
    assert count >= 8
