"""The `train` command: configuration in, a line or two out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cachemedicpp.pipeline import load


def train_command(path: Path, out: Path, overrides: Sequence[str], stop_at: int | None) -> None:
    config = load(path, overrides)  # a leave-one-type-out split is carried out here
    from cachemedicpp.training.run import OPERATOR, train_run  # after the configuration is known to be good

    metrics = train_run(config, out, path, stop_at)
    console = Console()
    if metrics is None:
        console.print(f"stopped before step {config.train.steps}: run the same command again to go on")
        return
    console.print(
        f"{metrics['train.steps']} steps, {metrics['train.steps_per_second']:.2f} steps/s, "
        f"{metrics['train.parameters']} parameters: {out / OPERATOR}"
    )
    if kl := metrics.get("train.heldout_kl"):
        console.print(
            f"held-out KL to the clean model: {kl['unrepaired']['estimate']:.4f} unrepaired, "
            f"{kl['repaired']['estimate']:.4f} repaired, {kl['clean_drift']['estimate']:.4f} on a clean cache"
        )
