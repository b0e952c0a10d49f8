"""A run is four functions: train, evaluate, stability, figures. Each also runs alone.

Finished stages are not repeated: an interrupted run continues after its last stored result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cachemedicpp.runs.ood import apply_split
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.config import load_config
from homeostat.core.progress import progress
from homeostat.core.rundir import RunDir

if TYPE_CHECKING:
    from cachemedicpp.eval.stage import Setup
    from cachemedicpp.repair.defences import Defence

STAGES = ("train", "eval", "stability", "plots")


def load(path: str | Path, overrides: Iterable[str] = ()) -> MedicConfig:
    """The configuration of a run, with its leave-one-type-out split carried out."""
    return apply_split(load_config(MedicConfig, path, overrides))


def prepared(config: MedicConfig) -> Setup:
    """The model, the data, the tasks and the prompts of a run, with every setting checked."""
    from cachemedicpp.eval.stage import prepare
    from cachemedicpp.runs.defences import check_defence_names
    from cachemedicpp.stability.stage import with_prompts

    check_defence_names(config)
    with progress(f"loading {config.model.name} and the data"):
        return with_prompts(prepare(config))


def run_stages(setup: Setup, run: RunDir, stages: Sequence[str] = STAGES, workers: int = 1) -> None:
    """The named stages, in order."""
    from cachemedicpp.runs.defences import run_defences

    if "train" in stages:
        train(setup, run)
    defences = run_defences(setup, run.path) if {"eval", "stability"} & set(stages) else []
    if "eval" in stages:
        evaluate(setup, run, defences, workers)
    if "stability" in stages:
        stability(setup, run, defences, workers)
    if "plots" in stages:
        figures(run.path)


def train(setup: Setup, run: RunDir) -> None:
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


def evaluate(setup: Setup, run: RunDir, defences: Sequence[Defence], workers: int = 1) -> None:
    """Every task, corruption type, severity and defence."""
    from cachemedicpp.eval import stage
    from cachemedicpp.runs.workers import by_workers

    stage.evaluate(setup, run, defences, by_workers("eval", setup.config, run, workers))


def stability(setup: Setup, run: RunDir, defences: Sequence[Defence], workers: int = 1) -> None:
    """Logit sensitivity and amplification of an evaluated run."""
    from cachemedicpp.runs.defences import stability_curves
    from cachemedicpp.runs.workers import by_workers
    from cachemedicpp.stability.stage import measure_stability, record_disabled

    if not setup.config.stability.enabled:
        return record_disabled(run)
    curves = stability_curves(setup.config.repair.family, run.path, defences)
    measure_stability(setup, run, curves, by_workers("stability", setup.config, run, workers))
    return None


def figures(run_dir: Path) -> list[Path]:
    """Figures and tables from the records of a run; no model is loaded."""
    from cachemedicpp.plots import figures, tables

    return [*figures.render(run_dir), *tables.render(run_dir)]
