"""One sample: everything that is known of one output. Rows of tables and of CSV files are views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from homeostat.core.records import Record
from skyt.records.columns import DistanceRow, RepairRow, Versions


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
    def place(self) -> tuple[str, str, float, int]:
        """Contract, model, temperature, and the number among outputs of these."""
        return self["contract_id"], self["model"], self["temperature"], self["sample"]

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
