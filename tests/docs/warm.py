"""A process that has imported everything and forks itself for each command: the command then starts at once.

Requests and answers are lines of JSON. `{"run": words, "cwd", "out", "seconds"}` is answered with the child's
process id, `{"wait": pid}` with its exit code. The child is the program itself: its own directory, arguments,
standard output (the file `out`) and exit code.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HEAVY = (
    "matplotlib.pyplot",
    "scipy.stats",
    "torch",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
    "openai",
    "cachemedicpp.eval.stage",
    "cachemedicpp.repair.gaussian.calibrate",
    "cachemedicpp.plots.figures",
    "homeostat.cli.main",
    "homeostat.report",
    "skyt.metrics.figures",
    "skyt.serve.web.server",
    "skyt.runs.measure",
)


def main() -> None:
    _import_everything()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            _, status = os.waitpid(asked["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child == 0:
            os._exit(_run(asked))
        print(child, flush=True)


def _import_everything() -> None:
    for name in HEAVY:
        with suppress(ImportError):  # an extra that is not installed: the commands that need it will say so
            import_module(name)
    from matplotlib import pyplot

    from homeostat.core.figures import save, style

    with TemporaryDirectory() as folder, style():  # fonts and formulas are slow the first time
        figure, axes = pyplot.subplots()
        axes.set_title(r"$R_{anchor}$")
        save(figure, Path(folder) / "warm")
        pyplot.close(figure)


def _run(asked: dict[str, Any]) -> int:
    out = os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    signal.alarm(asked["seconds"])  # its default action ends the process
    os.chdir(asked["cwd"])
    code = 0
    try:
        _program(asked["run"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _program(words: list[str]) -> None:
    name, *rest = words
    if name == "homeostat":
        from homeostat.cli.main import main as command

        sys.argv = ["homeostat", *rest]
        command()
    elif rest[0] == "-m":
        sys.argv = [rest[1], *rest[2:]]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = rest
        sys.path.insert(0, str(Path(rest[0]).resolve().parent))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main()
