"""`homeostat cache …`: the commands of cachemedicpp. Heavy imports stay inside the commands."""

from __future__ import annotations

import typer

app = typer.Typer(help="State: corrupt, repair, guard and measure a model's KV cache.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass
