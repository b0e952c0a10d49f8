"""From the CSVs of a run to tallies, in one pass and in bounded memory, with every row checked.

Pre and post rows are read side by side in blocks and checked and summed as columns. Signatures are counted in
a dictionary that spills to temporary files when it grows, so memory does not grow with the number of rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from homeostat.core.errors import UserError
from skyt import records
from skyt.metrics.aggregation.columns import RowError
from skyt.metrics.aggregation.evidence import evidence_by_cell
from skyt.metrics.aggregation.rows import Cell, Runs, paired
from skyt.metrics.aggregation.signatures import SignatureCounts
from skyt.metrics.aggregation.sums import Sums
from skyt.metrics.formulas import BOOTSTRAP_LIMIT, ExactSum, Tally

__all__ = ["Cell", "RowError", "Tallies", "aggregate"]


@dataclass
class Tallies:
    """The tallies of a run: by cell, by prompt, and over everything."""

    cells: dict[Cell, Tally] = field(default_factory=dict)
    prompts: dict[str, Tally] = field(default_factory=dict)
    overall: Tally = field(default_factory=Tally)
    versions: dict[str, records.Versions] = field(default_factory=dict)  # by prompt


def aggregate(folder: Path, tau: float, canons: dict[str, str | None]) -> Tallies:
    """Read `runs.csv`, both distance files and `repairs.csv`. `canons`: each prompt's canon signature."""
    runs = Runs(folder / records.RUNS)
    sums = Sums(folder, runs, tau, canons)
    counts = SignatureCounts()
    with counts:
        for block in paired(folder):
            sums.add(block, counts)
        by_cell, by_prompt = counts.modal([cell.prompt_id for cell in runs.cells], folder)
    evidence = evidence_by_cell(folder / records.REPAIRS, runs)
    return _collect(runs, sums, evidence, by_cell, by_prompt)


def _collect(
    runs: Runs,
    sums: Sums,
    evidence: dict[int, Counter[str]],
    by_cell: dict[int, int],
    by_prompt: dict[str, int],
) -> Tallies:
    result = Tallies(versions=runs.versions)
    for at, cell in enumerate(runs.cells):
        n, canonical_pre, canonical_post, rescued, within_pre, within_post, ok_pre, ok_post = (
            int(value) for value in sums.counts[at]
        )
        levels = (canonical_pre, evidence[at]["rewritten"], evidence[at]["equivalent"])
        if sum(levels[1:]) != rescued:
            raise UserError(
                f"repairs.csv has {sum(levels[1:])} successful repairs for {cell.prompt_id}, {cell.model}, "
                f"temperature {cell.temperature}, where the distances show {rescued}: not the same run"
            )
        first, second, *squares = (ExactSum.of(parts) for parts in sums.sums[at].tolist())
        result.cells[cell] = Tally(
            n=n,
            modal=by_cell.get(at, 0),
            canonical_pre=canonical_pre,
            canonical_post=canonical_post,
            rescued=rescued,
            within_pre=within_pre,
            within_post=within_post,
            compliant_pre=ok_pre,
            compliant_post=ok_post,
            sum_pre=first,
            sum_post=second,
            squares=(squares[0], squares[1], squares[2]),
            evidence=levels,
            pairs=tuple(sorted(sums.pairs[at])) if n <= BOOTSTRAP_LIMIT else None,
        )
    for cell, tally in result.cells.items():
        result.prompts[cell.prompt_id] = result.prompts.get(cell.prompt_id, Tally()) + tally
    for prompt, tally in result.prompts.items():
        result.prompts[prompt] = replace(tally, modal=by_prompt.get(prompt, 0))
        result.overall = result.overall + result.prompts[prompt]
    return result
