"""Rows of a run's CSV files, and samples that were never generated."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from skyt.records import RunRow, Sample, Versions
from skyt.text.signature import signature

STAMP = "2026-01-01T00:00:00.000Z"
CANON = "canon"


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cell(run_id: str = "r.0000", prompt: str = "gcd", model: str = "m", **changes: Any) -> RunRow:
    row = RunRow(run_id, prompt, "test", STAMP, model, 0.7, None, "o1", "n1", prompt, "d1")
    return row._replace(**changes)


def sample(text: str = "x", d: float = 1 / 3, after: float | None = None, **changes: Any) -> Sample:
    """A sample of the text, at distance `d` to the canon; repaired to it where `after` is 0."""
    verdict = {"compliant": True, "failures": [], "counterexample": None}
    d, after = (0.0, 0.0) if text == CANON else (d, d if after is None else after)
    post = CANON if after == 0.0 else text
    tested = {"equal": True, "inputs": 1, "seed": 0, "method": "m", "version": "1", "undecided": 0}
    found = {"same_normal_form": True, "same_verdict": True}
    found |= {"equivalence": {**tested, "counterexample": None, "outside": None}}
    record = {
        "run_id": "unplaced", "sample_id": "000000", "prompt_id": "gcd", "contract_id": "gcd",
        "model": "m", "temperature": 0.7, "sample": 0, "raw_output": text, "parsed": True,
        "normalized_pre": text, "normalized_post": post,
        "signature_pre": signature(text), "signature_post": signature(post),
        "d_pre": d, "d_post": after, "distance_method": "exact",
        "evidence": "identical" if d == 0 else "rewritten" if after == 0 else "none", "reason": "x",
        "repair_steps": [], "oracle_pre": verdict, "oracle_post": verdict,
        "canon_signature": signature(CANON), **(found if 0 == after < d else {}),
        **dict(zip(Versions._fields, ("n1", "o1", "d1"), strict=True)), **changes,
    }  # fmt: skip
    return Sample(record, STAMP)
