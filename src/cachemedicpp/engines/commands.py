"""`homeostat engine …`: the guard in serving engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homeostat.core.entry import Overrides, named_configs
from homeostat.core.rundir import check_out, default_out

app = typer.Typer(help="Serving engines: damage, guard and compare their KV caches.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def campaign(
    config: Annotated[
        str,
        typer.Argument(
            help="A YAML file, or one that comes with the program: engine, engine-small.",
            autocompletion=named_configs,
        ),
    ] = "engine-small",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/CONFIG."
        ),
    ] = None,
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

    settings = load_config(CampaignConfig, config, overrides or ())
    folder = out or default_out(Path(config).stem, settings)
    check_out(folder, settings)
    metrics = run_campaign(settings, folder, config)
    console = Console()
    console.print(terminal_table(metrics))
    console.print(f"Run directory: [bold]{escape(str(folder))}[/bold]", soft_wrap=True)


@app.command()
def slots(
    server: Annotated[str, typer.Argument(help="Where llama-server listens, e.g. http://127.0.0.1:8080.")],
    folder: Annotated[Path, typer.Argument(help="Its --slot-save-path.")],
    port: Annotated[int, typer.Option(help="Where to listen, on localhost; 0: a free port.")] = 8081,
    context: Annotated[
        str, typer.Option(help="What the server does not tell: types of the cache, scaling of positions, …")
    ] = "",
    model_id: Annotated[str, typer.Option(help="Names the weights, if their file is not here.")] = "",
) -> None:
    """Stand in front of llama.cpp's server and refuse saved slots that are damaged or foreign.

    Example: homeostat engine slots http://127.0.0.1:8080 slots --context "cache-type-k q8_0"
    """
    from cachemedicpp.engines.llamacpp import SlotProxy

    proxy = SlotProxy(server, folder, port, context, model_id)
    print(f"slots of {server} are checked at http://127.0.0.1:{proxy.server_address[1]}")
    try:
        proxy.serve_forever()
    except KeyboardInterrupt:
        print("stopped")
