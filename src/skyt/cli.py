"""`homeostat code …`: the commands of skyt. Heavy imports stay inside the commands."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Output: anchor a prompt to one canon, measure and repair generated code.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    pass
