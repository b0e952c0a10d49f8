from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from homeostat.core.errors import UserError
from homeostat.core.records import RecordError
from skyt import records
from skyt.records import Ledger, RunRow, Sample, read_rows
from skyt.records import ledger as ledger_module

DIGEST = "a" * 64
STAMP = "2026-01-01T00:00:00.000Z"


def sample(number: int, **changes: Any) -> Sample:
    verdict = {"compliant": False, "failures": ["cases"], "counterexample": None}
    record = {
        "run_id": "r.0000", "sample_id": f"{number:06d}", "prompt_id": "gcd", "contract_id": "gcd",
        "model": "m", "temperature": 0.7, "sample": number, "raw_output": "x", "parsed": True,
        "normalized_pre": "x", "normalized_post": "x", "signature_pre": DIGEST, "signature_post": DIGEST,
        "d_pre": 1 / 3, "d_post": 0.1 + 0.2, "distance_method": "exact", "evidence": "none", "reason": "x",
        "repair_steps": [], "oracle_pre": verdict, "oracle_post": verdict, "canon_signature": DIGEST,
        **dict.fromkeys(records.Versions._fields, "1"), **changes,
    }  # fmt: skip
    return Sample(record, STAMP)


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


def test_a_sample_has_one_row_in_each_file_at_full_precision(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append([sample(0)])
    ledger.append([sample(1)])
    assert [row["d"] for row in read_rows(tmp_path / "distances_pre.csv")] == [repr(1 / 3)] * 2
    assert [row["d"] for row in read_rows(tmp_path / "distances_post.csv")] == ["0.30000000000000004"] * 2
    assert ids(tmp_path / "repairs.csv") == ["000000", "000001"]
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["sample"] for line in lines] == [0, 1]
    assert ledger.count() == 2
    assert ledger.next_sample() == 2


def test_names_with_commas_quotes_and_line_breaks_stay_in_their_column(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    row = RunRow("r", "gcd", "run", STAMP, 'a "b",\nc', 0.5, None, "1", "1", "gcd", "1")
    ledger.append_runs([row])
    ledger.append_runs([row])  # the same run once more: nothing new
    (found,) = read_rows(tmp_path / "runs.csv")
    assert found["model"] == 'a "b", c'
    assert found["seed"] == ""


def test_a_record_that_does_not_fit_its_schema_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="evidence"):
        Ledger(tmp_path).append([sample(0), sample(1, evidence="hope")])
    assert not (tmp_path / "distances_pre.csv").exists()


def test_an_unfinished_transaction_is_undone_by_whoever_comes_next(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append([sample(0)])
    sizes = {name: (tmp_path / name).stat().st_size for name in (records.PRE, records.POST, records.REPAIRS)}
    before = {name: (tmp_path / name).read_bytes() for name in sizes}
    (tmp_path / ".ledger.journal").write_text(json.dumps(sizes) + "\n")
    with (tmp_path / records.PRE).open("a") as file:
        file.write("r.0000,000001,gcd,pre,half a ro")
    assert Ledger(tmp_path).count() == 1
    assert {name: (tmp_path / name).read_bytes() for name in sizes} == before
    assert not (tmp_path / ".ledger.journal").exists()


def test_a_full_disk_undoes_the_whole_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.append([sample(0)])
    real, calls = ledger_module._append, []

    def failing(path: Path, data: bytes, synced: bool = False) -> None:
        calls.append(path.name)
        if path.name == records.REPAIRS:
            real(path, data[:10])
            raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(ledger_module, "_append", failing)
    with pytest.raises(UserError, match="No space left"):
        ledger.append([sample(1)])
    monkeypatch.undo()
    assert (
        ids(tmp_path / records.PRE)
        == ids(tmp_path / records.POST)
        == ids(tmp_path / records.REPAIRS)
        == ["000000"]
    )


def _append_many(folder: Path, times: int) -> None:
    ledger = Ledger(folder)
    for _ in range(times):
        with ledger.locked():
            ledger.append([sample(ledger.next_sample())])


def test_appends_from_many_processes_never_mix_or_repeat(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append_many, args=(tmp_path, 25)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    expected = [f"{number:06d}" for number in range(200)]
    assert ids(tmp_path / records.PRE) == ids(tmp_path / records.POST) == expected
    with (tmp_path / records.REPAIRS).open(newline="") as file:
        assert all(len(row) == len(records.COLUMNS[records.REPAIRS]) for row in csv.reader(file))


def test_a_writer_killed_at_any_moment_leaves_all_rows_of_a_sample_or_none(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    samples, count = tmp_path / records.SAMPLES, 0
    for attempt in range(12):
        before = samples.stat().st_size if count else 0
        worker = context.Process(target=_append_many, args=(tmp_path, 10_000))
        worker.start()
        while not samples.exists() or samples.stat().st_size == before:  # on a busy machine it starts late
            time.sleep(0.001)
        time.sleep(0.005 * attempt)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        count = Ledger(tmp_path).count()
        expected = [f"{number:06d}" for number in range(count)]
        for name in (records.PRE, records.POST, records.REPAIRS):
            assert ids(tmp_path / name) == expected
        assert len(samples.read_text().splitlines()) == count
    assert count >= 12


def test_a_file_with_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("run_id,prompt\n")
    with pytest.raises(UserError, match=r"runs\.csv.*prompt_id"):
        list(read_rows(tmp_path / "runs.csv"))
