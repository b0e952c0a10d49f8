"""The files of a run and their columns: those of the design first, the versions the seed wants at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

RUNS = "runs.csv"
PRE = "distances_pre.csv"
POST = "distances_post.csv"
REPAIRS = "repairs.csv"
SUMMARY = "metrics_summary.csv"
SAMPLES = "samples.jsonl"
STORE = "records.sqlite"  # what the other files are written from


class Versions(NamedTuple):
    """What a row's figures are valid for."""

    normalization_version: str
    oracle_version: str
    distance_version: str


class RunRow(NamedTuple):
    """One cell of a run: a prompt asked of one model at one temperature."""

    run_id: str
    prompt_id: str
    mode: str
    timestamp: str
    model: str
    temperature: float
    seed: int | None
    oracle_version: str
    normalization_version: str
    contract_id: str
    distance_version: str

    @property
    def versions(self) -> Versions:
        return Versions(self.normalization_version, self.oracle_version, self.distance_version)


class DistanceRow(NamedTuple):
    """A sample's distance to the canon at one stage: `pre` or `post` repair."""

    run_id: str
    sample_id: str
    prompt_id: str
    stage: str
    signature: str
    d: float
    compliant: bool
    normalization_version: str
    timestamp: str
    oracle_version: str
    distance_version: str


class RepairRow(NamedTuple):
    """One attempt to bring a sample to the canon. `reason` starts with the evidence it ended with."""

    run_id: str
    sample_id: str
    before_signature: str
    after_signature: str
    d_before: float
    d_after: float
    steps: int
    success: bool
    reason: str
    timestamp: str
    oracle_version: str
    normalization_version: str
    distance_version: str


SUMMARY_COLUMNS = (
    "prompt_id",
    "N",
    "R_raw",
    "R_anchor",
    "mu_pre",
    "mu_post",
    "delta_R_anchor",
    "delta_mu",
    "P_tau_pre",
    "P_tau_post",
    "delta_P_tau",
    "rescue_rate",
    "tau",
    "oracle_version",
    "normalization_version",
    "distance_version",
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    RUNS: RunRow._fields,
    PRE: DistanceRow._fields,
    POST: DistanceRow._fields,
    REPAIRS: RepairRow._fields,
    SUMMARY: SUMMARY_COLUMNS,
}
