"""A run of skyt for Python and notebooks: `skyt.run` makes one, `skyt.read_run` reads one that is there.

run = skyt.run("is_even", n=12)     # the same as `homeostat code run is_even -n 12`
run                                 # the table of its metrics
run.samples().to_frame()            # every sample, for pandas
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat.core.config import parse_config
from homeostat.core.errors import UserError
from homeostat.core.results import Shown, Table
from skyt.metrics.summary import summarise_again
from skyt.metrics.table import RunMetrics
from skyt.records import RunStore, Sample
from skyt.runs.config import RunConfig
from skyt.runs.measure import RunOptions
from skyt.runs.suite import run_one

_SAMPLE = ("sample_id", "contract_id", "model", "temperature", "d_pre", "d_post", "evidence", "reason")


@dataclass(frozen=True, repr=False)
class CodeRun(Shown):
    """A measured run: its folder, its metrics, its samples."""

    folder: Path
    metrics: RunMetrics

    def table(self) -> Table:
        """The metrics, one row per prompt."""
        return self.metrics.table()

    def samples(self) -> Table:
        """One row per sample: how far from the canon before and after repair, on what evidence."""
        with RunStore.existing(self.folder) as store:
            rows = [self._row(sample) for sample in store.samples()]
        return Table.of(rows, f"samples of {self.folder}")

    @staticmethod
    def _row(sample: Sample) -> dict[str, Any]:
        return {
            **{name: sample[name] for name in _SAMPLE},
            "compliant": sample["oracle_pre"]["compliant"],
            "raw_output": sample["raw_output"],
            "repaired": sample["normalized_post"],
        }


def run(
    contract: str,
    *,
    n: int = 20,
    out: str | Path | None = None,
    contracts_dir: str | Path | None = None,
    workers: int | None = None,
    figures: bool = False,
    **settings: Any,
) -> CodeRun:
    """Sample a contract's prompt, anchor it, measure and repair every output.

    `settings` are those of `skyt.runs.config.RunConfig`: temperature, generator, tau, evidence, … Without
    `out`, the folder is `runs/code-<contract>`; the same call again goes on with what is there.
    """
    config = parse_config(RunConfig, {"contract": contract, "n": n, **settings}, "skyt.run")
    options = RunOptions(workers=workers, figures=figures)
    done = run_one(
        config,
        None if out is None else Path(out),
        options,
        None if contracts_dir is None else Path(contracts_dir),
    )
    if done.metrics is None or done.failures:
        missing = f"{done.recorded} of {done.wanted} outputs are on record in {done.folder}"
        raise UserError(f"{missing}: {done.failures[0]}")
    return CodeRun(done.folder, RunMetrics(done.metrics))


def read_run(folder: str | Path) -> CodeRun:
    """A finished run from its folder; every metric is computed again from its rows."""
    return CodeRun(Path(folder), RunMetrics(summarise_again(Path(folder), None)))
