"""`homeostat cache …`: the commands of cachemedicpp. Heavy imports stay inside the commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from homeostat.core.entry import Engine, Overrides, named_configs, run

app = typer.Typer(help="State: corrupt, repair, guard and measure a model's KV cache.", no_args_is_help=True)


Config = Annotated[
    Path,
    typer.Argument(
        help="A YAML file, or the name of one that comes with the program: `homeostat list configs`.",
        autocompletion=named_configs,
    ),
]
RunDirectory = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/cache-CONFIG."
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, help="Processes that evaluate examples at the same time.")
]


@app.command()
def train(
    config: Config,
    out: RunDirectory = None,
    overrides: Overrides = None,
    stop_at: Annotated[
        int | None, typer.Option(min=1, help="Stop after this step. The same command continues from there.")
    ] = None,
) -> None:
    """Train a repair operator A, B or C by distillation from the clean model."""
    from cachemedicpp.runs.commands import train_command

    train_command(config, out, overrides or [], stop_at)


@app.command("run")
def run_(config: Config, out: RunDirectory = None, overrides: Overrides = None, workers: Workers = 1) -> None:
    """Train, evaluate, measure stability, draw figures and tables; resumable stage by stage."""
    from cachemedicpp.runs.commands import run_command

    run_command(config, out, overrides or [], workers)


@app.command("eval")
def eval_(
    config: Config, out: RunDirectory = None, overrides: Overrides = None, workers: Workers = 1
) -> None:
    """Evaluate every task, corruption type, epsilon and defence of a trained run."""
    from cachemedicpp.runs.commands import run_command

    run_command(config, out, overrides or [], workers, ("eval",))


@app.command()
def stability(
    config: Config, out: RunDirectory = None, overrides: Overrides = None, workers: Workers = 1
) -> None:
    """Measure logit sensitivity and amplification of an evaluated run."""
    from cachemedicpp.runs.commands import run_command

    run_command(config, out, overrides or [], workers, ("stability",))


@app.command()
def plots(run_dir: Annotated[Path, typer.Argument(help="A run directory with metrics.")]) -> None:
    """Draw the figures and tables of a run again from its records."""
    from cachemedicpp.runs.commands import plots_command

    plots_command(run_dir)


@app.command()
def sweep(
    config: Annotated[Path, typer.Argument(help="A sweep: YAML with a base configuration and variants.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder of the sweep; default: runs/cache-CONFIG."),
    ] = None,
    engine: Engine = "local",
    workers: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    overrides: Overrides = None,
) -> None:
    """Run many variants of one configuration and compare them. Exit code 1 means that a run failed."""
    from cachemedicpp.sweep.run import run_sweep

    raise typer.Exit(run_sweep(config, out, engine, workers, overrides or []) > 0)


@app.command()
def calibrate(
    model: Annotated[str, typer.Argument(help="Alias, hub id, local directory or GGUF file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the operator; default: runs/cache-calibrate-MODEL."
        ),
    ] = None,
    text: Annotated[
        str, typer.Option(help="A text file, or wikitext2 (its train split), or offline.")
    ] = "wikitext2",
    windows: Annotated[int, typer.Option(min=16, help="Windows of text to learn from.")] = 128,
    length: Annotated[
        int,
        typer.Option(min=16, help="Tokens per window. G judges no learned position beyond this length."),
    ] = 256,
    reach: Annotated[
        int | None,
        typer.Option(min=0, max=2, help="Neighbouring layers per side. Default: 1, or 0 for short texts."),
    ] = None,
) -> None:
    """Learn the statistics of repair operator G from ordinary text, in minutes and without training."""
    from cachemedicpp.runs.calibrate import calibrate_command

    calibrate_command(model, text, out, windows, length, reach)


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="A saved cache with its fingerprints.")],
    text: Annotated[Path | None, typer.Option(help="Prefill this text and save its cache there.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model; by default the one that made the cache.")
    ] = None,
    heal: Annotated[bool, typer.Option("--heal", help="Recompute damaged blocks and save.")] = False,
) -> None:
    """Verify a KV cache on disk, block by block, and heal it. Exit code 1 means that it is damaged."""
    from cachemedicpp.runs.check import check_command

    raise typer.Exit(check_command(folder, text, model, heal))


@app.command()
def audit(
    cache: Annotated[Path, typer.Argument(help="A saved cache: its folder, or a file of K.0, V.0, K.1, …")],
    tokens: Annotated[
        Path | None, typer.Option(help="JSON list of its token ids. Default: those saved beside the cache.")
    ] = None,
    operator: Annotated[
        Path | None,
        typer.Option(help="Operator G that compares all numbers with what its statistics expect."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model; by default the one that made the cache.")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="With --operator: false alarms per clean block. Default: the least it was calibrated for."
        ),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw positions × layers to this PNG.")] = None,
    record: Annotated[Path | None, typer.Option("--json", help="Write the findings to this file.")] = None,
    heal: Annotated[
        bool, typer.Option("--heal", help="Recompute what is not of its tokens, and save.")
    ] = False,
) -> None:
    """Tell which blocks of a KV cache are not of their tokens. Exit code 1 means that some are not.

    The model recomputes one token in each block; an operator compares every number with its statistics.
    """
    from cachemedicpp.runs.audit import audit_command

    raise typer.Exit(audit_command(cache, tokens, operator, model, alpha, figure, record, heal))


def run_module(command: str) -> None:
    """One command by module name: `python -m cachemedicpp.train …` is `homeostat cache train …`."""
    run(app, [command, *sys.argv[1:]], name=f"python -m cachemedicpp.{command}")
