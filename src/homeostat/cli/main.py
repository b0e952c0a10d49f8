"""The front door: what both systems share, and the two systems as command groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cachemedicpp.cli import app as cache_app
from cachemedicpp.engines.commands import app as engine_app
from homeostat import __version__
from homeostat.cli import listing, models, pages
from homeostat.core.entry import Overrides, named_configs, run
from homeostat.core.rundir import default_out
from skyt.cli import app as code_app

app = typer.Typer(
    help="Measure how far an LLM's inference drifts from its reference, and bring it back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cache_app, name="cache")
app.add_typer(code_app, name="code")
app.add_typer(engine_app, name="engine")
app.add_typer(listing.app, name="list", no_args_is_help=True)
app.add_typer(models.app, name="models", no_args_is_help=True)
pages.register(app, cache_app, code_app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"homeostat {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor() -> None:
    """Check what this machine offers: versions, device, default model, sandbox, Ray, network.

    Exit code 1 if something the program needs is broken.
    """
    from rich.console import Console
    from rich.table import Table

    from homeostat.cli.doctor import examine

    checks = examine()
    marks = {"ok": "[green]ok", "absent": "[yellow]absent", "broken": "[red]broken"}
    table = Table("what", "state", "detail", title="homeostat doctor", title_justify="left")
    for check in checks:
        table.add_row(check.name, marks[check.state], escape(check.detail))
    Console().print(table)
    if any(check.state == "broken" for check in checks):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/demo."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Show both systems at work on the default model: a few minutes, no network, a run directory to look at.

    The same command continues an interrupted demo, and shows a finished one again.
    """
    from homeostat.core.config import load_config
    from homeostat.demo.command import run_demo
    from homeostat.demo.config import DemoConfig

    config = load_config(DemoConfig, None, overrides or ())
    run_demo(config, out or default_out("demo", config))


@app.command()
def joint(
    config: Annotated[
        str,
        typer.Argument(
            help="A YAML file, or the name of one that comes with the program.", autocompletion=named_configs
        ),
    ] = "joint",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/CONFIG."
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=1, help="Processes that judge programs. They do not change the records."
        ),
    ] = 2,
    overrides: Overrides = None,
) -> None:
    """Write code from clean, damaged and repaired KV caches, and measure what damage and repair do to it.

    For every contract the model's cache of the prompt is damaged at rising severities and repaired by each
    defence; skyt judges and anchors what the model then writes. `joint-small` takes minutes on two cores.
    """
    from rich.console import Console

    from homeostat.core.config import load_config
    from homeostat.joint.config import JointConfig
    from homeostat.joint.experiment import run_joint
    from homeostat.joint.table import terminal_table

    settings = load_config(JointConfig, config, overrides or ())
    folder = out or default_out(Path(config).stem, settings)
    metrics = run_joint(settings, folder, config, workers)
    console = Console()
    console.print(terminal_table(metrics))
    console.print(f"Run directory: [bold]{escape(str(folder))}[/bold]", soft_wrap=True)


def main() -> None:
    run(app)
