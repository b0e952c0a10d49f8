"""Running a typer application: mistakes of the user become one line, bugs keep their traceback."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import click
import typer

from homeostat.errors import UserError

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override one setting, e.g. --set train.lr=1e-4; may be repeated."
    ),
]


def run(app: typer.Typer, arguments: list[str] | None = None, name: str = "homeostat") -> NoReturn:
    """Run `app` and exit: 0 done, 1 the work failed, 2 the user's mistake, 130 interrupted."""
    try:
        code = app(args=arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except UserError as error:
        message = " ".join(str(error).split())
        print(f"error: {message}", file=sys.stderr)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted: run the same command again to go on from where it stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
