"""`homeostat engine …`: the guard in serving engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homeostat.core.entry import Overrides, default_run_dir

app = typer.Typer(
    help="Serving engines: damage and guard the KV cache of a running vLLM.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    pass


@app.command()
def campaign(
    config: Annotated[
        str, typer.Argument(help="A YAML file, or one that comes with the program: engine, engine-small.")
    ] = "engine-small",
    out: Annotated[Path | None, typer.Option(help="The run directory; an unfinished run is resumed.")] = None,
    overrides: Overrides = None,
) -> None:
    """Start vLLM, damage its paged cache, and count answers that change, with and without the guard.

    Needs the engine's environment (`make setup-engines`).
    """
    from rich.console import Console
    from rich.markup import escape

    from cachemedicpp.engines.campaign.config import CampaignConfig
    from cachemedicpp.engines.campaign.run import run_campaign
    from cachemedicpp.engines.campaign.table import terminal_table
    from homeostat.core.config import load_config

    folder = out or default_run_dir("engine")
    metrics = run_campaign(load_config(CampaignConfig, config, overrides or ()), folder, config)
    console = Console()
    console.print(terminal_table(metrics))
    console.print(f"Run directory: [bold]{escape(str(folder))}[/bold]", soft_wrap=True)
