"""The records of a run: CSV files with fixed columns, and `samples.jsonl` with everything known per sample.

The first columns of each CSV are those of the design; the versions that the seed wants in every log follow at
the end. Files of the earlier form, which lack them, are read with a note and continued in their own form.

May use every room before it, up to repair.
"""

from skyt.records.columns import (
    ADDED,
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
    SampleRecord,
    Versions,
)
from skyt.records.ledger import Durability, Ledger
from skyt.records.reading import columns_of, note_earlier_form, open_csv, read_rows
from skyt.records.rebuild import read_samples, rebuilt

__all__ = [
    "ADDED",
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
    "SampleRecord",
    "Versions",
    "columns_of",
    "note_earlier_form",
    "open_csv",
    "read_rows",
    "read_samples",
    "rebuilt",
]
