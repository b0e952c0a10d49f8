"""The records of a run: CSV files with fixed columns, and `samples.jsonl` with everything known per sample.

The first columns of each CSV are those of the design; the versions that the seed wants in every log follow at
the end.

May use every room before it, up to repair.
"""

from skyt.records.columns import (
    COLUMNS,
    POST,
    PRE,
    REPAIRS,
    RUNS,
    SAMPLES,
    SUMMARY,
    SUMMARY_COLUMNS,
    DistanceRow,
    RepairRow,
    RunRow,
    Versions,
)
from skyt.records.ledger import Durability, Ledger
from skyt.records.reading import open_csv, read_rows
from skyt.records.sample import Sample, read_samples

__all__ = [
    "COLUMNS",
    "POST",
    "PRE",
    "REPAIRS",
    "RUNS",
    "SAMPLES",
    "SUMMARY",
    "SUMMARY_COLUMNS",
    "DistanceRow",
    "Durability",
    "Ledger",
    "RepairRow",
    "RunRow",
    "Sample",
    "Versions",
    "open_csv",
    "read_rows",
    "read_samples",
]
