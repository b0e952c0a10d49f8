"""`homeostat engine …`: the guard in serving engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homeostat.core import atomic
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


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="A folder with chunks, pages or slots.")]) -> None:
    """Check every file that LMCache, SGLang or llama.cpp stored with the guard; 1 if any is damaged.

    Example: homeostat engine check kv
    """
    from cachemedicpp.engines.folders import checked

    found = list(checked(folder))
    for path, why in found:
        if why:
            print(f"{path}: {why}")
    damaged = sum(bool(why) for _, why in found)
    print(f"{len(found)} files checked, {damaged} damaged or stored without the guard")
    raise typer.Exit(code=int(damaged > 0))


@app.command()
def conformance(
    engine: Annotated[
        str, typer.Option(help="transformers, vllm, llama.cpp or sglang-storage.")
    ] = "transformers",
    connector: Annotated[
        str, typer.Option(help="vllm: another connector's name, wrapped; others: none, for no guard.")
    ] = "",
    model: Annotated[str, typer.Option(help="An alias or a folder; llama.cpp: a GGUF file, too.")] = "",
    dtype: Annotated[list[str] | None, typer.Option(help="float32, bfloat16, float16; repeatable.")] = None,
    block: Annotated[list[int] | None, typer.Option(help="Tokens of a block; repeatable.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only these round trips; repeatable.")] = None,
    planted: Annotated[
        str, typer.Option(help="transformers: a fault on purpose: layout, dtype, table or version.")
    ] = "",
    record: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to this file.")
    ] = None,
) -> None:
    """Compare answers from stored, reloaded, evicted and damaged blocks with cold ones; 1 if any differ.

    Example: homeostat engine conformance --engine vllm --dtype float32 --block 32
    """
    from cachemedicpp.engines.conformance.cases import conform, jobs, line

    rows = []
    for job, names in jobs(engine, connector, model, dtype or (), block or (), case or (), planted):
        rows += conform(job, names, lambda row: print(line(row), flush=True))
    if record is not None:
        atomic.write_json(record, rows)
    print(f"{sum(row['passed'] for row in rows)} of {len(rows)} round trips passed")
    raise typer.Exit(code=int(not all(row["passed"] for row in rows)))
