"""The rows of a sample from its record: what the CSV files must say, given a line of `samples.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.records import Record, RecordError, read_jsonl, validate
from skyt.records.columns import POST, PRE, REPAIRS, SAMPLES, DistanceRow, RepairRow, SampleRecord, Versions
from skyt.records.reading import columns_of, read_rows
from skyt.text.signature import signature


def rebuilt(sample: Record, *, attempted: bool, versions: Versions, timestamp: str) -> SampleRecord:
    """All rows of a sample from its record and the few things that the record does not say."""
    pre = DistanceRow(
        run_id=sample["run_id"],
        sample_id=sample["sample_id"],
        prompt_id=sample["prompt_id"],
        stage="pre",
        signature=sample["signature_pre"],
        d=sample["d_pre"],
        compliant=sample["oracle_pre"]["compliant"],
        timestamp=timestamp,
        **versions._asdict(),
    )
    post = pre._replace(
        stage="post",
        signature=sample["signature_post"],
        d=sample["d_post"],
        compliant=sample["oracle_post"]["compliant"],
    )
    repair = RepairRow(
        run_id=pre.run_id,
        sample_id=pre.sample_id,
        before_signature=pre.signature,
        after_signature=post.signature,
        d_before=pre.d,
        d_after=post.d,
        steps=len(sample["repair_steps"]),
        success=post.d == 0.0,
        reason=f"{sample['evidence']}: {sample['reason']}",
        timestamp=timestamp,
        **versions._asdict(),
    )
    return SampleRecord(pre, post, repair if attempted else None, sample)


def read_samples(folder: Path) -> Iterator[SampleRecord]:
    """Every sample of a run with its rows. What contradicts something else is refused by file and line."""
    path = folder / SAMPLES
    repairs = enumerate(read_rows(folder / REPAIRS), start=2)
    at, waiting = next(repairs, (0, None))
    width = {name: len(columns_of(folder / name)) for name in (PRE, POST, REPAIRS)}
    rows = zip_longest(read_rows(folder / PRE), read_rows(folder / POST), read_jsonl(path))
    for number, (pre, post, sample) in enumerate(rows, start=1):
        if pre is None or post is None or sample is None:
            raise UserError(
                f"{folder}: sample {number} is not in all of {PRE}, {POST}, {SAMPLES}: run the command that "
                f"made it again, it will finish the records"
            )
        _check(path, number, sample, pre)
        key = (pre["run_id"], pre["sample_id"])
        attempted = waiting is not None and (waiting["run_id"], waiting["sample_id"]) == key
        record = rebuilt(
            sample,
            attempted=attempted,
            versions=Versions(*(pre[name] for name in Versions._fields)),
            timestamp=pre["timestamp"],
        )
        _same(folder / PRE, number + 1, pre, record.pre, width[PRE])
        _same(folder / POST, number + 1, post, record.post, width[POST])
        if waiting is not None and record.repair is not None:
            _same(folder / REPAIRS, at, waiting, record.repair, width[REPAIRS])
            at, waiting = next(repairs, (0, None))
        yield record
    if waiting is not None:
        raise UserError(
            f"{folder / REPAIRS}, line {at}: sample {waiting['sample_id']} is out of order or unknown"
        )


def _check(path: Path, line: int, sample: Record, row: dict[str, str]) -> None:
    """A line must fit its schema, its texts must have their signatures, its versions must be its row's."""
    try:
        validate(sample, "sample")
    except RecordError as error:
        raise UserError(f"{path}, line {line}: {error}") from None
    for stage in ("pre", "post"):
        if signature(sample[f"normalized_{stage}"]) != sample[f"signature_{stage}"]:
            raise UserError(f"{path}, line {line}: normalized_{stage} does not have its signature_{stage}")
    for name in Versions._fields:
        if row[name] and sample.get(name, row[name]) != row[name]:
            raise UserError(f"{path}, line {line}: {name} = {sample[name]!r}, its row has {row[name]!r}")


def _same(path: Path, line: int, row: dict[str, str], record: Any, columns: int) -> None:
    """That a row says what the record says, in the columns that its file has."""
    for name, value in list(record._asdict().items())[:columns]:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else value
        given: Any = row[name]
        if isinstance(value, float):
            try:
                given = float(given)
            except ValueError:
                given = None
        if given != (text if isinstance(value, float) else " ".join(str(text).splitlines())):
            raise UserError(
                f"{path}, line {line} (sample {row['sample_id']}): {name} = {row[name]!r}, "
                f"where {SAMPLES} says {value!r}"
            )
