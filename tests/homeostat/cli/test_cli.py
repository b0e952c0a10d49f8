"""The command line: fast to start, mistakes in one line with exit code 2, bugs with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from homeostat import __version__
from homeostat.cli.main import app
from homeostat.core import entry
from homeostat.core.errors import UserError


def homeostat(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "homeostat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_help_starts_without_torch_and_in_under_a_second() -> None:
    code = (
        "import sys\nfrom homeostat.cli import main\nsys.argv = ['homeostat', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'scipy', 'matplotlib', 'pandas', 'ray'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    before = os.times()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert "cache" in done.stdout and "code" in done.stdout
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 1.0  # of processor time: how long it takes depends on what else is running


def test_importing_homeostat_imports_no_torch() -> None:
    code = (
        "import sys, homeostat.core.models, homeostat.core.rundir, homeostat.core.stats; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_printed() -> None:
    done = homeostat("--version")
    assert (done.returncode, done.stdout) == (0, f"homeostat {__version__}\n")


def test_an_unknown_command_exits_with_2() -> None:
    done = homeostat("frobnicate")
    assert done.returncode == 2 and "frobnicate" in done.stderr


def application(error: BaseException) -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        raise error

    return app


def test_a_users_mistake_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        entry.run(application(UserError("tau = 2:\nmust lie in [0, 1]")), [])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: tau = 2: must lie in [0, 1]\n"


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        entry.run(application(ZeroDivisionError()), [])


def test_an_interrupt_exits_with_130_and_says_how_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        entry.run(application(KeyboardInterrupt()), [])
    assert stop.value.code == 130
    assert "run the same command again" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["-h"], ["code", "-h"], ["code", "run", "-h"], ["cache", "audit", "-h"]])
def test_h_is_help_everywhere(command: list[str]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and "Usage:" in result.output
