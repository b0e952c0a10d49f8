"""`homeostat report`, `homeostat view`, and the two gates: commands that read finished records."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from homeostat.gate import cache, code, judge
from homeostat.gate.checks import Bound

RunDirectory = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The --out of an earlier command.")]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit XML summary.")]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary.")
]
Confident = Annotated[
    bool, typer.Option("--confident", help="Judge by the unfavourable end of each interval.")
]
Baseline = Annotated[
    Path | None, typer.Option(metavar="RUN_DIR", help="An earlier run to compare with, see --max-drop.")
]


def register(app: typer.Typer, cache_app: typer.Typer, code_app: typer.Typer) -> None:
    """Add the commands to the main program and to the groups of the two systems."""
    app.command()(report)
    app.command()(view)
    cache_app.command("gate")(cache_gate)
    code_app.command("gate")(code_gate)


def report(
    run_dir: RunDirectory,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: RUN_DIR/report.html.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write each figure there as a page of its own."),
    ] = None,
    png: Annotated[bool, typer.Option("--png", help="With --figures: as PNG too; needs Chromium.")] = False,
) -> None:
    """Write one self-contained HTML file that shows a run: figures, curves, maps, tables, samples."""
    from homeostat.core.errors import UserError
    from homeostat.report import build, write_figures, write_report

    if png and figures is None:
        raise UserError("--png needs --figures DIR: the folder to write to")
    typer.echo(str(write_report(run_dir, out)))
    for path in [] if figures is None else write_figures(build(run_dir), figures, png=png):
        typer.echo(str(path))


def view(
    runs_dir: Annotated[Path, typer.Argument(metavar="[RUNS_DIR]", help="The folder with your runs.")] = Path(
        "runs"
    ),
    port: Annotated[int, typer.Option("--port", help="Port on localhost; 0 takes a free one.")] = 8347,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Browse, follow and compare runs in a page served on this machine only. Ctrl-C ends it."""
    from homeostat.viewer import serve

    serve(runs_dir, port=port, open_browser=open_browser)


def with_bounds(bounds: Iterable[Bound]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with an option for each bound of a gate; the command gets them as its `limits`."""
    bounds = tuple(bounds)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            limits = {bound.option: options.pop(bound.option) for bound in bounds}
            command(limits=limits, **options)

        signature = inspect.signature(command, eval_str=True)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.name != "limits":
                parameters.append(parameter)
                continue
            for bound in bounds:
                kind = Annotated[float | None, typer.Option(help=bound.help)]
                parameters.append(parameter.replace(name=bound.option, annotation=kind, default=None))
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


@with_bounds(code.BOUNDS)
def code_gate(
    run_dir: RunDirectory,
    limits: Any = None,
    evidence: Annotated[
        str | None, typer.Option(help="Count R_anchor up to this evidence: identical, rewritten, equivalent.")
    ] = None,
    per_prompt: Annotated[
        bool, typer.Option("--per-prompt", help="Check each prompt too, not only all.")
    ] = False,
    confident: Confident = False,
    baseline: Baseline = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="How much worse than the baseline R_anchor, mu and the oracle may be."),
    ] = None,
    across_versions: Annotated[
        bool,
        typer.Option("--across-versions", help="Compare with a baseline of other versions or another canon."),
    ] = False,
    junit: JUnit = None,
    markdown: Markdown = None,
) -> None:
    """Fail a build when generated code drifts. Exit codes: 0 within bounds, 1 drift, 2 a mistake."""
    checks = code.code_checks(
        run_dir,
        limits,
        evidence=evidence,
        per_prompt=per_prompt,
        confident=confident,
        baseline=baseline,
        max_drop=max_drop,
        across_versions=across_versions,
    )
    raise typer.Exit(judge(run_dir, checks, junit, markdown))


@with_bounds(cache.BOUNDS)
def cache_gate(
    run_dir: RunDirectory,
    defence: Annotated[
        str | None, typer.Option(help="Which defence is judged; default: the run's repair.family.")
    ] = None,
    limits: Any = None,
    confident: Confident = False,
    baseline: Baseline = None,
    max_drop: Annotated[
        float | None, typer.Option(help="How far the area may fall below the baseline's.")
    ] = None,
    junit: JUnit = None,
    markdown: Markdown = None,
) -> None:
    """Fail a build when a cache's defence drifts. Exit codes: 0 within bounds, 1 drift, 2 a mistake."""
    checks = cache.cache_checks(
        run_dir, limits, defence=defence, confident=confident, baseline=baseline, max_drop=max_drop
    )
    raise typer.Exit(judge(run_dir, checks, junit, markdown))
