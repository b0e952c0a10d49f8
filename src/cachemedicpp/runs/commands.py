"""The bodies of `run`, `eval`, `stability` and `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cachemedicpp.runs.pipeline import STAGES, figures, load, prepared, run_stages
from cachemedicpp.runs.results import read_run
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.errors import UserError
from homeostat.core.progress import say
from homeostat.core.records import read_record
from homeostat.core.rundir import check_out, default_out, open_run


def run_command(
    path: Path, out: Path | None, overrides: Sequence[str], workers: int, stages: Sequence[str] = STAGES
) -> None:
    """These stages, resumed where an earlier call stopped; all settings are checked before anything is made.

    A stage alone needs a run directory that has what it reads.
    """
    config = load(path, overrides)
    folder = run_folder(config, path, out)
    command = f"cache {stages[0] if len(stages) == 1 else 'run'}"
    say(f"{command} {path} → {folder}")
    setup = prepared(config)
    with open_run(folder, command=command, config=config, config_path=path) as run:
        run_stages(setup, run, stages, workers)
        if stages == STAGES:
            run.finish()
    summary(folder)


def plots_command(run_dir: Path) -> None:
    """Draw figures and tables again, from the records alone."""
    if not (run_dir / "run_record.json").exists():
        raise UserError(f"{run_dir} is not a run directory: it has no run_record.json")
    read_record(run_dir / "run_record.json", "run_record")
    for path in figures(run_dir):
        Console().print(str(path), soft_wrap=True)


def train_command(path: Path, out: Path | None, overrides: Sequence[str], stop_at: int | None) -> None:
    config = load(path, overrides)  # a leave-one-type-out split is carried out here
    from cachemedicpp.train.stage import OPERATOR, train_run  # after the configuration is known to be good

    folder = run_folder(config, path, out)
    say(f"cache train {path} → {folder}")
    metrics = train_run(config, folder, path, stop_at)
    console = Console()
    if metrics is None:
        console.print(f"stopped before step {config.train.steps}: run the same command again to continue")
        return
    console.print(
        f"{metrics['train.steps']} steps, {metrics['train.steps_per_second']:.2f} steps/s, "
        f"{metrics['train.parameters']} parameters: {folder / OPERATOR}"
    )
    if kl := metrics.get("train.heldout_kl"):
        console.print(
            f"held-out KL to the clean model: {kl['unrepaired']['estimate']:.4f} unrepaired, "
            f"{kl['repaired']['estimate']:.4f} repaired, {kl['clean_drift']['estimate']:.4f} on a clean cache"
        )


def run_folder(config: MedicConfig, path: Path, out: Path | None) -> Path:
    """The run directory, found to be usable: `out`, or `runs/cache-<configuration>`."""
    folder = out or default_out(f"cache-{path.stem}", config)
    check_out(folder, config)
    return folder


def summary(run_dir: Path) -> None:
    """The areas under the robustness curves, best first."""
    if (run_dir / "metrics" / "task_metrics.json").exists():
        console = Console()
        console.print(str(read_run(run_dir)), highlight=False, markup=False, soft_wrap=True)
        console.print(f"records, figures and tables: {run_dir}", soft_wrap=True)
