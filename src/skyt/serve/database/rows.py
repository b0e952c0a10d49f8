"""Between a sample's row in the database and its rows in the files of a run: one fact, kept once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import RowMapping, select

from skyt.canon import Canon
from skyt.records import SampleRecord, Versions, rebuilt
from skyt.serve.database.tables import runs, samples

# A sample with the versions of its run: the records of samples from before do not have them.
SAMPLE_ROWS = select(samples, runs.c.oracle_version, runs.c.distance_version).join(
    runs, runs.c.run_id == samples.c.run_id
)


def encode(record: Any) -> str:
    """ASCII JSON: NULs and lone surrogates, which databases refuse, are escaped."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def canon_row(canon: Canon) -> dict[str, Any]:
    return {
        "prompt_id": canon.prompt_id,
        "canon_signature": canon.canon_signature,
        "record": encode(asdict(canon)),
    }


def sample_row(ledger: str, number: int, record: SampleRecord) -> dict[str, Any]:
    sample = record.sample
    return {
        "ledger": ledger,
        "number": number,
        "run_id": record.pre.run_id,
        "prompt_id": record.pre.prompt_id,
        "normalization_version": record.pre.normalization_version,
        "signature_pre": record.pre.signature,
        "signature_post": record.post.signature,
        "d_pre": record.pre.d,
        "d_post": record.post.d,
        "compliant_pre": record.pre.compliant,
        "compliant_post": record.post.compliant,
        "evidence": sample["evidence"],
        "canon_signature": sample["canon_signature"],
        "attempted": record.repair is not None,
        "timestamp": record.pre.timestamp,
        "record": encode(sample),
    }


def sample_record(row: RowMapping) -> SampleRecord:
    """The rows of the files, from what the database keeps; `row` is one of `SAMPLE_ROWS`."""
    found = Versions(row["normalization_version"], row["oracle_version"] or "", row["distance_version"] or "")
    return rebuilt(
        json.loads(row["record"]), attempted=row["attempted"], versions=found, timestamp=row["timestamp"]
    )


def numbered(record: SampleRecord, run_id: str, number: int, sample: int, timestamp: str) -> SampleRecord:
    """A measured sample at its place in a ledger."""
    sample_id = f"{number:06d}"
    repair = record.repair
    return SampleRecord(
        record.pre._replace(run_id=run_id, sample_id=sample_id, timestamp=timestamp),
        record.post._replace(run_id=run_id, sample_id=sample_id, timestamp=timestamp),
        repair and repair._replace(run_id=run_id, sample_id=sample_id, timestamp=timestamp),
        {**record.sample, "run_id": run_id, "sample_id": sample_id, "sample": sample},
    )
