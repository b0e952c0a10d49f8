"""One sample: everything that is known of one output. The rows of the CSV files are views of its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.records import Record, RecordError, read_jsonl, validate
from skyt.records.columns import POST, PRE, REPAIRS, SAMPLES, DistanceRow, RepairRow, Versions
from skyt.records.reading import read_rows
from skyt.text.signature import signature


@dataclass(frozen=True)
class Sample:
    """A line of `samples.jsonl`, and when it was measured."""

    record: Record
    timestamp: str

    def __getitem__(self, name: str) -> Any:
        return self.record[name]

    @property
    def versions(self) -> Versions:
        return Versions(*(self[name] for name in Versions._fields))

    @property
    def pre(self) -> DistanceRow:
        return self._distance("pre")

    @property
    def post(self) -> DistanceRow:
        return self._distance("post")

    @property
    def repair(self) -> RepairRow | None:
        """The attempt to bring it to the canon; none without a canon, or where it is the canon."""
        if self["canon_signature"] is None or self["d_pre"] == 0.0:
            return None
        return RepairRow(
            run_id=self["run_id"],
            sample_id=self["sample_id"],
            before_signature=self["signature_pre"],
            after_signature=self["signature_post"],
            d_before=self["d_pre"],
            d_after=self["d_post"],
            steps=len(self["repair_steps"]),
            success=self["d_post"] == 0.0,
            reason=f"{self['evidence']}: {self['reason']}",
            timestamp=self.timestamp,
            **self.versions._asdict(),
        )

    def placed(self, run_id: str, number: int, sample: int, timestamp: str) -> Sample:
        """The same sample at its place in a run; `sample` is its number within its cell."""
        place = {"run_id": run_id, "sample_id": f"{number:06d}", "sample": sample}
        return Sample({**self.record, **place}, timestamp)

    def _distance(self, stage: str) -> DistanceRow:
        return DistanceRow(
            run_id=self["run_id"],
            sample_id=self["sample_id"],
            prompt_id=self["prompt_id"],
            stage=stage,
            signature=self[f"signature_{stage}"],
            d=self[f"d_{stage}"],
            compliant=self[f"oracle_{stage}"]["compliant"],
            timestamp=self.timestamp,
            **self.versions._asdict(),
        )


def read_samples(folder: Path) -> Iterator[Sample]:
    """Every sample of a run. What contradicts something else is refused by file and line."""
    path = folder / SAMPLES
    repairs = enumerate(read_rows(folder / REPAIRS), start=2)
    at, attempt = next(repairs, (0, None))
    rows = zip_longest(read_rows(folder / PRE), read_rows(folder / POST), read_jsonl(path))
    for number, (pre, post, record) in enumerate(rows, start=1):
        if pre is None or post is None or record is None:
            raise UserError(
                f"{folder}: sample {number} is not in all of {PRE}, {POST}, {SAMPLES}: run the command that "
                f"made it again, it will finish the records"
            )
        _check(path, number, record, pre)
        sample = Sample(record, pre["timestamp"])
        _same(folder / PRE, number + 1, pre, sample.pre)
        _same(folder / POST, number + 1, post, sample.post)
        if sample.repair is not None:
            if attempt is None:
                raise UserError(f"{folder / REPAIRS} has no row of sample {sample['sample_id']}")
            _same(folder / REPAIRS, at, attempt, sample.repair)
            at, attempt = next(repairs, (0, None))
        yield sample
    if attempt is not None:
        raise UserError(
            f"{folder / REPAIRS}, line {at}: sample {attempt['sample_id']} is out of order or unknown"
        )


def _check(path: Path, line: int, record: Record, row: dict[str, str]) -> None:
    """A line must fit its schema, its texts must have their signatures, its versions must be its row's."""
    try:
        validate(record, "sample")
    except RecordError as error:
        raise UserError(f"{path}, line {line}: {error}") from None
    for stage in ("pre", "post"):
        if signature(record[f"normalized_{stage}"]) != record[f"signature_{stage}"]:
            raise UserError(f"{path}, line {line}: normalized_{stage} does not have its signature_{stage}")
    for name in Versions._fields:
        if record[name] != row[name]:
            raise UserError(f"{path}, line {line}: {name} = {record[name]!r}, its row has {row[name]!r}")


def _same(path: Path, line: int, row: dict[str, str], wanted: DistanceRow | RepairRow) -> None:
    """That a row says what the record says."""
    for name, value in wanted._asdict().items():
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
