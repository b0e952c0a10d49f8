"""Records are checked before they are written; logs survive a process that dies while writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from homeostat.core.errors import UserError
from homeostat.core.records import RecordError, read_jsonl, read_record, write_record

METRIC = {"run_id": "r", "config_hash": "0" * 64, "metrics": {"a": 1.0}, "settings": {}}


def test_a_valid_record_reads_back_as_written(tmp_path: Path) -> None:
    write_record(tmp_path / "m.json", METRIC, "metric_record")
    assert read_record(tmp_path / "m.json", "metric_record") == METRIC


@pytest.mark.parametrize("missing", ["run_id", "config_hash", "metrics", "settings"])
def test_a_record_that_lacks_a_required_field_is_never_written(tmp_path: Path, missing: str) -> None:
    broken = {key: value for key, value in METRIC.items() if key != missing}
    with pytest.raises(RecordError, match=missing):
        write_record(tmp_path / "m.json", broken, "metric_record")
    assert not (tmp_path / "m.json").exists()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"run_id": ')
    with pytest.raises(UserError, match=r"damaged record .*m\.json"):
        read_record(tmp_path / "m.json", "metric_record")


def test_a_torn_last_line_is_left_out_and_a_torn_middle_line_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": ')
    assert [record["a"] for record in read_jsonl(log)] == [1, 2]
    log.write_bytes(b'{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(UserError, match="line 2"):
        list(read_jsonl(log))
