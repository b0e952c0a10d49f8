"""Running a typer application: mistakes of the user become one line, bugs keep their traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO, cast

import typer

from homeostat.core import resources, threads
from homeostat.core.engine import EngineName
from homeostat.core.errors import UserError
from homeostat.core.progress import lines_on_stdout

_INTERRUPTED = 130

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override one setting, e.g. --set train.lr=1e-4; may be repeated."
    ),
]


Contracts = Annotated[
    Path | None, typer.Option("--contracts", metavar="DIR", help="A folder with contracts of your own.")
]

Engine = Annotated[
    EngineName, typer.Option("--engine", help="local (processes of this machine) or ray (a cluster).")
]


def named_configs(incomplete: str) -> list[str]:
    """For shell completion: configurations that come with the program."""
    return [name for name in resources.shipped("configs") if name.startswith(incomplete)]


def named_contracts(incomplete: str) -> list[str]:
    """For shell completion: contracts that come with the program."""
    names = (name.rpartition("/")[2] for name in resources.shipped("contracts"))
    return [name for name in sorted(names) if name.startswith(incomplete)]


class _Output:
    """Standard output whose reader may leave (`… | head -1`): the work goes on, and nothing more is shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._drop(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self, text: str = "") -> int:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())
        return len(text)


def run(app: typer.Typer, arguments: list[str] | None = None, name: str = "homeostat") -> NoReturn:
    """Run `app` and exit: 0 done, 1 the work failed, 2 the user's mistake, 130 interrupted."""
    lines_on_stdout()
    try:
        threads.prepare()
        with contextlib.redirect_stdout(cast(TextIO, _Output(sys.stdout))):
            app(args=arguments, prog_name=name)
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print("interrupted: run the same command again to continue", file=sys.stderr)
        raise
    sys.exit(0)
