"""A whole run, stage by stage: train, evaluate, stability, figures and tables. Each stage also runs alone.

Stages that are finished are not done again: an interrupted run goes on from its last stored result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachemedicpp.config import MedicConfig
from cachemedicpp.ood import apply_split
from homeostat.config import load_config
from homeostat.errors import UserError, nearest
from homeostat.records import Record, read_record
from homeostat.rundir import RunDir

if TYPE_CHECKING:
    from cachemedicpp.defences import Defence
    from cachemedicpp.evaluate import Setup

STAGES = ("train", "eval", "stability", "plots")
LEARNED = ("A", "B", "C")
OPERATORS = "operators"  # in eval.defences: every operator the run trains


def load(path: str | Path, overrides: Iterable[str] = ()) -> MedicConfig:
    """The configuration of a run, with its leave-one-type-out split carried out."""
    return apply_split(load_config(MedicConfig, path, overrides))


def run_stages(config: MedicConfig, run: RunDir, stages: Sequence[str] = STAGES, workers: int = 1) -> None:
    """Do the named stages in order. Everything that can be refused is refused before the first one starts."""
    for stage in stages:
        if stage not in STAGES:
            raise UserError(f"unknown stage {stage!r}; {nearest(stage, STAGES)}")
    if set(stages) != {"plots"}:
        from cachemedicpp.evaluate import prepare

        check_defence_names(config)
        setup = prepare(config)
        if "train" in stages:
            train_operators(setup, run)
        if {"eval", "stability"} & set(stages):
            measure(setup, run, stages, workers)
    if "plots" in stages:
        render(run.path)


def measure(setup: Setup, run: RunDir, stages: Sequence[str], workers: int = 1) -> None:
    """Evaluation and stability, with the defences this run has."""
    from cachemedicpp.evaluate import evaluate
    from cachemedicpp.stability_metrics import measure_stability

    defences = run_defences(setup, run.path)
    if "eval" in stages:
        evaluate(setup, run, defences, workers)
    if "stability" in stages and setup.config.stability.enabled:
        measure_stability(setup, run, stability_curves(setup, run.path, defences), workers)


def render(run_dir: Path) -> list[Path]:
    """Figures and tables from the records of a run; no model is loaded."""
    from cachemedicpp import plots, tables

    return [*plots.render(run_dir), *tables.render(run_dir)]


def families(config: MedicConfig) -> list[str]:
    """The operators a run trains."""
    if config.eval.families is not None:
        return list(config.eval.families)
    return [config.repair.family] if config.repair.family in LEARNED else []


def operator_folder(run_dir: Path, config: MedicConfig, family: str) -> Path:
    """The configured family's operator is the run's own; others it trains have run directories inside it."""
    own = family == config.repair.family
    return run_dir / "operator" if own else run_dir / "families" / family / "operator"


def train_operators(setup: Setup, run: RunDir) -> None:
    """Train every family of the run, or go on training it; the log keeps the corruption that was drawn."""
    from cachemedicpp.training.run import train_into, train_run

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


def check_defence_names(config: MedicConfig) -> None:
    """Refuse defences that are unknown or that this run will not have."""
    from cachemedicpp.heuristics import HEURISTICS

    known = ["none", *HEURISTICS, *LEARNED, OPERATORS, "G", "guard"]
    if config.eval.defences is not None and set(config.eval.defences) <= {"none"}:
        raise UserError("eval.defences: name at least one defence to compare with none")
    for name in config.eval.defences or []:
        if name not in known:
            raise UserError(f"eval.defences: unknown defence {name!r}; {nearest(name, known)}")
        if name in LEARNED and name not in families(config):
            raise UserError(f"eval.defences: this run trains no operator {name}; add it to eval.families")


def run_defences(setup: Setup, run_dir: Path) -> list[Defence]:
    """No defence, the heuristics, the run's operators, G and guard; or those the configuration names.

    An operator that was not trained is an error, never an untrained stand-in.
    """
    from cachemedicpp import defences as kinds
    from cachemedicpp.repair import load_repair

    config, wanted = setup.config, setup.config.eval.defences
    found: list[Defence] = [kinds.Defence()]
    found += [
        defence
        for defence in kinds.heuristics(setup.layers, config.eval.oracle_heuristics)
        if wanted is None or defence.name.removesuffix(kinds.ORACLE) in wanted
    ]
    for family in families(config):
        if wanted is None or family in wanted or OPERATORS in wanted:
            folder = operator_folder(run_dir, config, family)
            found.append(kinds.from_repair(family, load_repair(folder, setup.model)))
    if wanted is None or "G" in wanted:
        found.append(kinds.from_repair("G", calibrated(setup, run_dir)))
    if wanted is None or "guard" in wanted:
        found.append(kinds.Guarded())
    return found


def calibrated(setup: Setup, run_dir: Path) -> Any:
    """Operator G for this model, fitted once a run on text that is not evaluated."""
    from cachemedicpp.gaussian.prepare import prepare_once

    wanted = setup.config.eval
    return prepare_once(
        run_dir / "calibrated",
        setup.model,
        setup.tokenizer,
        setup.config.data,
        wanted.calibration_windows,
        wanted.calibration_len,
    )


def stability_curves(setup: Setup, run_dir: Path, defences: Sequence[Defence]) -> dict[str, Defence]:
    """The curves of figure C: baseline, the best heuristic, the run's own repair, and the others it has."""
    from cachemedicpp.tables import main_defence

    by_name = {defence.name: defence for defence in defences}
    curves = {"baseline": by_name["none"]}
    best = _best_heuristic(run_dir)
    if best in by_name:
        curves["heuristics"] = by_name[best]
    shown = {name: by_name[name] for name in (*LEARNED, "G", "guard") if name in by_name}
    if best in by_name:
        shown["best_heuristic"] = by_name[best]
    own = main_defence(setup.config.repair.family, shown)
    curves["cachemedic"] = shown[own]
    for name in (*LEARNED, "G", "guard"):
        if name in by_name and name != own:
            curves[name] = by_name[name]
    return curves


def _best_heuristic(run_dir: Path) -> str | None:
    """As picked on the whole evaluation grid, which the stability prompts are no part of."""
    path = run_dir / "metrics" / "task_metrics.json"
    if not path.exists():
        raise UserError(f"{path} does not exist: evaluate first, the best heuristic is picked there")
    metrics: Record = read_record(path, "metric_record")["metrics"]
    picked = metrics.get("robustness.best_heuristic")
    return None if picked is None else str(picked["overall"])
