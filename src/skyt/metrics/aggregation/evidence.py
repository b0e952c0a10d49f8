"""What the distance 0 of each repaired sample rests on, from `repairs.csv`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from skyt import records
from skyt.metrics.aggregation.columns import ColumnReader, Columns, RowError
from skyt.metrics.aggregation.rows import Runs, version_columns, wrong_version
from skyt.metrics.formulas import EVIDENCE

_NAMES = records.RepairRow._fields
_RUN, _BEFORE, _AFTER = _NAMES.index("run_id"), _NAMES.index("d_before"), _NAMES.index("d_after")
_SUCCESS, _REASON = _NAMES.index("success"), _NAMES.index("reason")


def evidence_by_cell(path: Path, runs: Runs) -> dict[int, Counter[str]]:
    """Canonical samples by evidence and cell, from the successful rows of `repairs.csv`."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    line, versions = 2, version_columns(path)
    wanted = (_RUN, _BEFORE, _AFTER, _SUCCESS, _REASON, *versions.values())
    with ColumnReader(path) as reader:
        while columns := reader.read():
            # Rows repeat: what they say is checked once for each combination in the block.
            kinds = Counter(zip(*(columns[at] for at in wanted), strict=True))
            for kind, count in kinds.items():
                problem = _problem(kind[:5], runs)
                if problem is None:
                    prompt = runs.cells[runs.index[kind[0]]].prompt_id
                    problem = wrong_version(list(versions), kind[5:], runs.versions[prompt])
                if problem:
                    raise _named(path, line, columns, wanted, kind, problem)
                run_id, _, after, _, reason = kind[:5]
                if float(after) == 0.0:
                    found[runs.index[run_id]][reason.partition(":")[0]] += count
            line += len(columns[_RUN])
    return found


def _problem(kind: tuple[str, ...], runs: Runs) -> str | None:
    run_id, before, after, success, reason = kind
    if run_id not in runs.index:
        return "runs.csv has no such run"
    try:
        d_before, d_after = float(before), float(after)
    except ValueError:
        return "d_before or d_after is not a number"
    if not 0.0 <= d_after <= d_before <= 1.0:
        return f"d goes from {before} to {after}: repair is monotone and stays within [0, 1]"
    if (success == "true") != (d_after == 0.0):
        return f"success = {success} with d_after = {after}"
    if d_after == 0.0 and reason.partition(":")[0] not in EVIDENCE[1:]:
        return f"reason = {reason!r} names no evidence for d = 0"
    return None


def _named(
    path: Path, line: int, columns: Columns, wanted: Sequence[int], kind: tuple[str, ...], problem: str
) -> RowError:
    for at, row in enumerate(zip(*columns, strict=True)):
        if tuple(row[column] for column in wanted) == kind:
            return RowError(path, line + at, row, problem)
    raise AssertionError("the row was there a moment ago")
