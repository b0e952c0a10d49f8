"""The defences of one run: no defence, the heuristics, the operators it trained, G and the guard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cachemedicpp.eval.forgetting import CALIBRATED_WAY, WAYS
from cachemedicpp.eval.stage import Setup
from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.labels import main_defence
from cachemedicpp.repair.base import Repair, load_repair
from cachemedicpp.repair.defences import Defence, Guarded, heuristic_defences
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.repair.heuristics import Levels, heuristic, heuristics, measure_levels
from cachemedicpp.repair.registry import DEFENCES
from cachemedicpp.runs.calibrate import prepare_once
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.data import load_text
from cachemedicpp.tasks.windows import Windows
from homeostat.core.errors import UserError, nearest

CALIBRATED = "calibrated"  # the folder of a run that has operator G and the usual levels
OPERATORS = "operators"  # in eval.defences: every operator the run trains


def families(config: MedicConfig) -> list[str]:
    """The operators a run trains."""
    if config.eval.families is not None:
        return list(config.eval.families)
    return [config.repair.family] if config.repair.family in trained() else []


def trained() -> list[str]:
    """The operators that can be trained."""
    return [name for name, kind in DEFENCES.items() if kind.untrained is not None]


def operator_folder(run_dir: Path, config: MedicConfig, family: str) -> Path:
    """The configured family's operator is the run's own; others it trains have run directories inside it."""
    own = family == config.repair.family
    return run_dir / "operator" if own else run_dir / "families" / family / "operator"


def check_defence_names(config: MedicConfig) -> None:
    """Refuse defences that are unknown or that this run will not have."""
    known = [OPERATORS, *(name for name, kind in DEFENCES.items() if kind.role != "variant")]
    if config.eval.defences is not None and set(config.eval.defences) <= {"none"}:
        raise UserError("eval.defences: name at least one defence to compare with none")
    for name in config.eval.defences or []:
        if name not in known:
            raise UserError(f"eval.defences: unknown defence {name!r}; {nearest(name, known)}")
        if name in trained() and name not in families(config):
            raise UserError(f"eval.defences: this run trains no operator {name}; add it to eval.families")


def run_defences(setup: Setup, run_dir: Path) -> list[Defence]:
    """No defence, the heuristics, the run's operators, G and guard; or those the configuration names.

    An operator that was not trained is an error, never an untrained stand-in.
    """
    config, wanted = setup.config, setup.config.eval.defences
    found: list[Defence] = [Defence(), *_heuristics(setup, run_dir)]
    for family in families(config):
        if wanted is None or family in wanted or OPERATORS in wanted:
            folder = operator_folder(run_dir, config, family)
            found.append(Defence(family, repair=load_repair(folder, setup.model)))
    if wanted is not None and "safe" in wanted:
        found.append(Defence("safe", repair=heuristic("safe", setup.layers)))
    if wanted is None or "G" in wanted:
        whole = calibrated(setup, run_dir)
        found.append(Defence("G", repair=whole))
        if config.eval.ood_protocol is not None and isinstance(whole, GaussianRepair):
            without = GaussianRepair(whole.stats, whole.card, config.eval.corruption_eval.types)
            found.append(Defence("G_without", repair=without))
    if wanted is None or "guard" in wanted:
        found.append(Guarded())
    return found


def _heuristics(setup: Setup, run_dir: Path) -> list[Defence]:
    """The heuristics that are wanted. Forgetting always is: what it costs stands beside every score."""
    config = setup.config
    wanted = config.eval.defences
    names = set(heuristics()) if wanted is None else {*WAYS, *wanted}
    levelled = names & {*heuristics()} - {*heuristics(calibrated=False)}
    if levelled:
        names.add(CALIBRATED_WAY)
    levels = usual_levels(setup, run_dir) if levelled else None
    told = config.eval.oracle_heuristics
    return heuristic_defences(setup.layers, levels, config.corruption.axes, names, told)


def usual_levels(setup: Setup, run_dir: Path) -> Levels:
    """What is usual in each channel, measured once per run on text that is not evaluated."""
    path = run_dir / CALIBRATED / "levels.safetensors"
    if not path.exists():
        wanted = setup.config.eval
        windows = Windows.of(load_text(setup.config.data, "train"), setup.tokenizer, wanted.calibration_len)
        measure_levels(setup.model, windows.spread(wanted.calibration_windows)).save(path)
    return Levels.load(path)


def calibrated(setup: Setup, run_dir: Path) -> Repair:
    """Operator G for this model, fitted once per run on text that is not evaluated."""
    wanted = setup.config.eval
    return prepare_once(
        run_dir / CALIBRATED,
        setup.model,
        setup.tokenizer,
        setup.config.data,
        wanted.calibration_windows,
        wanted.calibration_len,
    )


def stability_curves(family: str, run_dir: Path, defences: Sequence[Defence]) -> dict[str, Defence]:
    """The curves of figure C: baseline, the best heuristic, the run's own repair, the other operators, and
    every other heuristic.

    The best heuristic was picked on the whole evaluation grid, which does not contain the stability prompts.
    """
    picked = read_metrics(run_dir, "task_metrics").get("robustness.best_heuristic")
    best = None if picked is None else picked["overall"]
    by_name = {defence.name: defence for defence in defences}
    curves = {"baseline": by_name["none"]}
    roles = {name: kind.role for name, kind in DEFENCES.items()}
    operators = [name for name in roles if name in by_name and roles[name] in ("operator", "guard")]
    shown = {name: by_name[name] for name in operators}
    if best in by_name:
        curves["heuristics"] = shown["best_heuristic"] = by_name[best]
    own = main_defence(family, shown)
    curves["cachemedic"] = shown[own]
    others = [name for name in roles if name in by_name and roles[name] == "heuristic" and name != best]
    return curves | {name: by_name[name] for name in (*operators, *others) if name != own}
