"""What is on record of a run: a database, and the files that are written from it.

`records.sqlite` holds everything known per sample; the service's database has the same tables. The CSV files
have fixed columns: those of the design first, then the versions that the seed wants in every log.

May use every room before it, up to repair.
"""

from skyt.records.columns import (
    COLUMNS,
    POST,
    PRE,
    REPAIRS,
    RUNS,
    SAMPLES,
    STORE,
    SUMMARY,
    SUMMARY_COLUMNS,
    DistanceRow,
    RepairRow,
    RunRow,
    Versions,
)
from skyt.records.engine import Durability
from skyt.records.files import check_files, write_files
from skyt.records.sample import Sample
from skyt.records.store import RunStore

__all__ = [
    "COLUMNS",
    "POST",
    "PRE",
    "REPAIRS",
    "RUNS",
    "SAMPLES",
    "STORE",
    "SUMMARY",
    "SUMMARY_COLUMNS",
    "DistanceRow",
    "Durability",
    "RepairRow",
    "RunRow",
    "RunStore",
    "Sample",
    "Versions",
    "check_files",
    "write_files",
]
