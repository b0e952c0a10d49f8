"""Export and import: the files of a run and the database say the same, byte for byte."""

from __future__ import annotations

import csv
import filecmp
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.skyt.serve.conftest import running, settings
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

from homeostat.core.errors import UserError
from skyt import records
from skyt.contracts.contract import load_contracts
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import versions
from skyt.runs.measure import RunOptions
from skyt.runs.replay import replay
from skyt.serve.database.store import Store
from skyt.serve.database.transfer import export, import_run
from skyt.serve.service import Service

FILES = (records.RUNS, records.PRE, records.POST, records.REPAIRS, records.SUMMARY, records.SAMPLES)
OUTPUTS = [
    ("gcd", 0.2, fenced(GCD_WRONG)),
    ("is_prime", 0.2, "I cannot do that."),
    ("gcd", 0.2, fenced(GCD)),
    ("gcd", 0.9, fenced(GCD_RENAMED)),
    ("gcd", 0.9, "def gcd(a, b):\n    return ("),
    ("gcd", 0.2, fenced(GCD_WRONG)),
    ("gcd", 0.2, "prose, with a \x00 and \ud800"),
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file-based run of the outputs."""
    folder = tmp_path_factory.mktemp("replay")
    rows = [
        {"contract_id": c, "model": "scripted", "temperature": t, "sample": n, "raw_output": text}
        for n, (c, t, text) in enumerate(OUTPUTS)
    ]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "run"
    replay(file, out, MeasureConfig(), RunOptions(workers=1, figures=False))
    return out


def masked(path: Path) -> list[dict[str, str]]:
    """Rows without what names the run and the moment."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if k not in ("run_id", "mode", "timestamp")} for row in rows]


def test_a_run_imported_and_exported_is_the_same_byte_for_byte(replayed: Path, tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "x.sqlite"), versions())
    done = import_run(store, replayed)
    assert done.samples == len(OUTPUTS) and done.canons == 1
    export(store, tmp_path / "out", done.ledger)
    same, different, missing = filecmp.cmpfiles(
        replayed, tmp_path / "out", [*FILES, "canon/gcd.json"], shallow=False
    )
    assert (different, missing) == ([], []) and len(same) == len(FILES) + 1
    with pytest.raises(UserError, match="imported before"):
        import_run(store, replayed)
    store.close()


def test_what_was_served_exports_as_the_equal_file_based_run(replayed: Path, tmp_path: Path) -> None:
    contracts = load_contracts()
    with ScriptedUpstream() as upstream:
        service = Service(
            settings(upstream, tmp_path), {name: contracts[name] for name in ("gcd", "is_prime")}
        )
        with running(service) as url:
            for contract, temperature, text in OUTPUTS:
                upstream.plan.append(text)
                body = {
                    "model": "scripted",
                    "messages": [{"role": "user", "content": "?"}],
                    "temperature": temperature,
                }
                headers = {"x-skyt-contract": contract}
                answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30)
                assert answer.status_code == 200
    store = Store.open(str(tmp_path / "skyt.sqlite"), versions())
    export(store, tmp_path / "out")
    store.close()
    for name in (records.PRE, records.POST, records.REPAIRS):
        assert masked(tmp_path / "out" / name) == masked(replayed / name), name
    served, filed = masked(tmp_path / "out" / records.RUNS), masked(replayed / records.RUNS)
    assert served == filed
    assert (tmp_path / "out" / records.SUMMARY).read_bytes() == (replayed / records.SUMMARY).read_bytes()


def test_a_run_whose_canon_contradicts_the_databases_is_refused_whole(replayed: Path, tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "x.sqlite"), versions())
    from skyt.canon import CanonStore
    from skyt.text.signature import signature

    canon = CanonStore(replayed / "canon", versions()).get("gcd")
    assert canon is not None
    other = "def gcd(a, b):\n    return 0"
    store.set(replace(canon, normalized_code=other, canon_signature=signature(other)))
    with pytest.raises(UserError, match="never changes"):
        import_run(store, replayed)
    with pytest.raises(UserError, match="--ledger"):
        export(store, tmp_path / "out")
    store.close()


def test_rows_that_contradict_the_samples_are_refused_by_name(replayed: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(replayed, copy)
    lines = (copy / records.POST).read_text().splitlines()
    lines[4] = lines[4].replace(",true,", ",false,")
    (copy / records.POST).write_text("\n".join(lines) + "\n")
    store = Store.open(str(tmp_path / "x.sqlite"), versions())
    with pytest.raises(UserError, match=r"distances_post\.csv, line 5: compliant"):
        import_run(store, copy)
    store.close()
