"""`samples.jsonl` packed for the sample browser: every text once, and never more than a page can carry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from homeostat.core.records import Record
from homeostat.report.names import explanations
from homeostat.report.page import packed
from homeostat.report.reading import RunFiles

SAMPLES = "samples.jsonl"
ELEMENT = "samples-data"  # where the page keeps them
FIELDS = (
    "sample_id", "prompt", "model", "temperature", "d_pre", "d_post", "evidence", "method",
    "ok_pre", "ok_post", "fault", "reason", "steps", "raw", "pre", "post", "canon",
)  # fmt: skip
WORDS = ("prompt", "model", "evidence", "method")  # few distinct values: stored as numbers
MOST_SAMPLES = 20_000
TEXT_LIMITS = (100_000, 20_000, 4_000, 1_000, 200)  # characters of one text; the first that fits is used
MOST_BYTES = 8_000_000  # of the packed samples


class Texts:
    """Each distinct text once, cut at `limit` characters with a note of how much is missing."""

    def __init__(self, limit: int) -> None:
        self.items: list[str] = []
        self.cut = 0
        self._limit = limit
        self._index: dict[str, int] = {}

    def add(self, value: Any) -> int | None:
        if not isinstance(value, str):
            return None
        if value not in self._index:
            shown = value
            if len(value) > self._limit:
                self.cut += 1
                more = len(value) - self._limit
                shown = f"{value[: self._limit]}\n… {more:,} more characters are in samples.jsonl"
            self._index[value] = len(self.items)
            self.items.append(shown)
        return self._index[value]


def pack_samples(files: RunFiles) -> str:
    """The packed samples, with texts cut as far as the size of the page requires, and said so."""
    for limit in TEXT_LIMITS:
        found = packed(sample_data(files, limit))
        if len(found) <= MOST_BYTES:
            return found
    return packed(sample_data(files, TEXT_LIMITS[-1], most=2000))


def sample_data(files: RunFiles, limit: int = TEXT_LIMITS[0], most: int = MOST_SAMPLES) -> Record:
    texts = Texts(limit)
    words: dict[str, dict[str, int]] = {name: {} for name in WORDS}
    steps: dict[str, int] = {}
    canons = _canons(files, texts)
    known = {signature: index for index, signature in enumerate(canons)}
    rows: list[list[Any]] = []
    source = files.lines(SAMPLES)
    for sample in islice(source, most):
        row = {
            **{name: sample.get(name) for name in ("sample_id", "temperature", "d_pre", "d_post")},
            "prompt": str(sample.get("prompt_id")),
            "model": str(sample.get("model")),
            "evidence": str(sample.get("evidence")),
            "method": str(sample.get("distance_method")),
            "ok_pre": _compliant(sample, "oracle_pre"),
            "ok_post": _compliant(sample, "oracle_post"),
            "fault": texts.add(_fault(sample)),
            "reason": texts.add(sample.get("reason")),
            "steps": [steps.setdefault(str(s), len(steps)) for s in sample.get("repair_steps") or []],
            "raw": texts.add(sample.get("raw_output")),
            "pre": texts.add(sample.get("normalized_pre")),
            "post": texts.add(sample.get("normalized_post")),
            "canon": known.get(str(sample.get("canon_signature"))),
        }
        for name in WORDS:
            row[name] = words[name].setdefault(str(row[name]), len(words[name]))
        rows.append([row[name] for name in FIELDS])
    left = sum(1 for _ in source)
    return {
        "fields": FIELDS,
        "words": {name: list(index) for name, index in words.items()},
        "texts": texts.items,
        "steps": list(steps),
        "explanations": explanations(list(steps)),
        "canons": list(canons.values()),
        "rows": rows,
        "notes": list(_notes(texts, limit, len(rows), left)),
    }


def _notes(texts: Texts, limit: int, shown: int, left: int) -> Iterator[str]:
    if left:
        yield f"The first {shown:,} of {shown + left:,} samples are shown; all are in samples.jsonl."
    if texts.cut:
        yield f"{texts.cut:,} texts are cut at {limit:,} characters; samples.jsonl has them whole."


def _canons(files: RunFiles, texts: Texts) -> dict[str, int | None]:
    """Text number by canon signature, archived canons included."""
    found: dict[str, int | None] = {}
    folder = files.path / "canon"
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() and not folder.is_symlink() else ():
        canon = files.json(path.relative_to(files.path).as_posix()) if not path.is_symlink() else None
        if canon and isinstance(canon.get("canon_signature"), str):
            found[canon["canon_signature"]] = texts.add(canon.get("normalized_code"))
    return found


def _compliant(sample: Record, stage: str) -> bool | None:
    verdict = sample.get(stage)
    return bool(verdict.get("compliant")) if isinstance(verdict, dict) else None


def _fault(sample: Record) -> str | None:
    """Why the oracle refused the sample, in its words."""
    verdict = sample.get("oracle_post")
    if not isinstance(verdict, dict) or verdict.get("compliant"):
        return None
    return "; ".join(str(reason) for reason in verdict.get("failures") or []) or None
