"""A whole run, stage by stage: train, evaluate, stability, figures and tables. Each stage also runs alone.

Finished stages are not repeated: an interrupted run continues after its last stored result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cachemedicpp.runs.config import MedicConfig
from cachemedicpp.runs.ood import apply_split
from homeostat.core.config import load_config
from homeostat.core.errors import UserError, nearest
from homeostat.core.progress import progress
from homeostat.core.rundir import RunDir

if TYPE_CHECKING:
    from cachemedicpp.eval.stage import Setup

STAGES = ("train", "eval", "stability", "plots")


def load(path: str | Path, overrides: Iterable[str] = ()) -> MedicConfig:
    """The configuration of a run, with its leave-one-type-out split carried out."""
    return apply_split(load_config(MedicConfig, path, overrides))


def run_stages(
    config: MedicConfig,
    run: RunDir,
    stages: Sequence[str] = STAGES,
    workers: int = 1,
    setup: Setup[MedicConfig] | None = None,
) -> None:
    """Run the named stages in order. Every setting is checked before the first stage starts.

    `setup` is what `prepared(config)` gave, if that was called before the run directory was made.
    """
    for stage in stages:
        if stage not in STAGES:
            raise UserError(f"unknown stage {stage!r}; {nearest(stage, STAGES)}")
    if set(stages) != {"plots"}:
        setup = setup or prepared(config)
        if "train" in stages:
            train_operators(setup, run)
        if {"eval", "stability"} & set(stages):
            measure(setup, run, stages, workers)
    if "plots" in stages:
        render(run.path)


def prepared(config: MedicConfig) -> Setup[MedicConfig]:
    """The model, the data and the tasks of a run, with every setting checked."""
    from cachemedicpp.eval.stage import prepare
    from cachemedicpp.runs.defences import check_defence_names
    from cachemedicpp.stability.stage import check_stability

    check_defence_names(config)
    with progress(f"loading {config.model.name} and the data"):
        setup = prepare(config)
    check_stability(setup)
    return setup


def measure(setup: Setup[MedicConfig], run: RunDir, stages: Sequence[str], workers: int = 1) -> None:
    """Evaluation and stability, with the defences this run has."""
    from cachemedicpp.eval.stage import evaluate
    from cachemedicpp.runs.defences import run_defences, stability_curves
    from cachemedicpp.runs.workers import by_workers
    from cachemedicpp.stability.stage import measure_stability, record_disabled

    defences = run_defences(setup, run.path)
    spread = by_workers(setup.config, run, workers)
    if "eval" in stages:
        evaluate(setup, run, defences, spread)
    if "stability" in stages and not setup.config.stability.enabled:
        record_disabled(run)
    elif "stability" in stages:
        measure_stability(setup, run, stability_curves(setup, run.path, defences), spread)


def render(run_dir: Path) -> list[Path]:
    """Figures and tables from the records of a run; no model is loaded."""
    from cachemedicpp.plots import figures, tables

    return [*figures.render(run_dir), *tables.render(run_dir)]


def train_operators(setup: Setup[MedicConfig], run: RunDir) -> None:
    """Train every family of the run, or continue; the log keeps the corruption that was drawn."""
    from cachemedicpp.runs.defences import families
    from cachemedicpp.train.stage import train_into, train_run

    config = setup.config
    for family in families(config):
        if family == config.repair.family:
            train_into(run, config, setup.model, setup.tokenizer)
            continue
        other = config.model_copy(update={"repair": config.repair.model_copy(update={"family": family})})
        folder = run.path / "families" / family
        if not (folder / "operator" / "card.json").exists():
            train_run(other, folder, loaded=(setup.model, setup.tokenizer))
    if config.repair.family not in families(config):
        run.log("train").rewind(0)
        run.log("train").append(0, family=config.repair.family, note="nothing is trained for this family")
