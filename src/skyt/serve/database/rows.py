"""Between a sample's row in the database and its rows in the files of a run: one fact, kept once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import RowMapping

from skyt.canon import Canon
from skyt.records import Sample


def encode(record: Any) -> str:
    """ASCII JSON: NULs and lone surrogates, which databases refuse, are escaped."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def canon_row(canon: Canon) -> dict[str, Any]:
    return {
        "prompt_id": canon.prompt_id,
        "canon_signature": canon.canon_signature,
        "record": encode(asdict(canon)),
    }


def sample_row(ledger: str, number: int, sample: Sample) -> dict[str, Any]:
    own = ("run_id", "prompt_id", "normalization_version", "evidence", "canon_signature")
    staged = ("signature_pre", "signature_post", "d_pre", "d_post")
    return {
        "ledger": ledger,
        "number": number,
        **{name: sample[name] for name in (*own, *staged)},
        "compliant_pre": sample["oracle_pre"]["compliant"],
        "compliant_post": sample["oracle_post"]["compliant"],
        "timestamp": sample.timestamp,
        "record": encode(sample.record),
    }


def sample_of(row: RowMapping) -> Sample:
    """The sample of a row of the table."""
    return Sample(json.loads(row["record"]), row["timestamp"])
