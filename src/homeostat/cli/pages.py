"""`homeostat report`, `homeostat view`, and the two gates: commands that read finished records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunDirectory = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The --out of an earlier command.")]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit XML summary.")]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary.")
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


def code_gate(
    run_dir: RunDirectory,
    min_r_anchor: Annotated[float | None, typer.Option(help="Lowest share equal to the canon.")] = None,
    min_r_raw: Annotated[float | None, typer.Option(help="Lowest share of the commonest raw output.")] = None,
    min_p_tau: Annotated[float | None, typer.Option(help="Lowest share within tau after repair.")] = None,
    min_compliant: Annotated[float | None, typer.Option(help="Lowest share that passes the oracle.")] = None,
    min_rescue_rate: Annotated[float | None, typer.Option(help="Lowest share rescued by repair.")] = None,
    max_mu_post: Annotated[float | None, typer.Option(help="Largest mean distance after repair.")] = None,
    evidence: Annotated[
        str | None, typer.Option(help="Count R_anchor up to this evidence: identical, rewritten, equivalent.")
    ] = None,
    per_prompt: Annotated[
        bool, typer.Option("--per-prompt", help="Check each prompt too, not only all.")
    ] = False,
    confident: Annotated[
        bool, typer.Option("--confident", help="Judge by the unfavourable end of each interval.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="RUN_DIR", help="An earlier run to compare with, see --max-drop.")
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="How much worse than the baseline R_anchor, mu and the oracle may be."),
    ] = None,
    junit: JUnit = None,
    markdown: Markdown = None,
) -> None:
    """Fail a build when generated code drifts. Exit codes: 0 within bounds, 1 drift, 2 a mistake."""
    from homeostat.gate import judge
    from homeostat.gate.code import CodeBounds, code_checks

    bounds = CodeBounds(
        min_r_anchor=min_r_anchor,
        min_r_raw=min_r_raw,
        min_p_tau=min_p_tau,
        min_compliant=min_compliant,
        min_rescue_rate=min_rescue_rate,
        max_mu_post=max_mu_post,
        evidence=evidence,
        max_drop=max_drop,
    )
    checks = code_checks(run_dir, bounds, per_prompt=per_prompt, confident=confident, baseline=baseline)
    raise typer.Exit(judge(run_dir, checks, junit, markdown))


def cache_gate(
    run_dir: RunDirectory,
    defence: Annotated[
        str | None, typer.Option(help="Which defence is judged; default: the run's repair.family.")
    ] = None,
    min_auc: Annotated[float | None, typer.Option(help="Lowest area under the robustness curve.")] = None,
    min_auc_gain: Annotated[float | None, typer.Option(help="Lowest gain in area over no defence.")] = None,
    min_gain_over_heuristic: Annotated[
        float | None, typer.Option(help="Lowest gain in area over the best heuristic.")
    ] = None,
    max_clean_regression: Annotated[
        float | None, typer.Option(help="Largest loss of score where nothing is wrong.")
    ] = None,
    max_sensitivity_ratio: Annotated[
        float | None, typer.Option(help="Largest drift of logits at delta 1 relative to no defence.")
    ] = None,
    min_throughput: Annotated[
        float | None, typer.Option(help="Lowest throughput relative to no defence.")
    ] = None,
    confident: Annotated[
        bool, typer.Option("--confident", help="Judge by the unfavourable end of each interval.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="RUN_DIR", help="An earlier run to compare with, see --max-drop.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option(help="How far the area may fall below the baseline's.")
    ] = None,
    junit: JUnit = None,
    markdown: Markdown = None,
) -> None:
    """Fail a build when a cache's defence drifts. Exit codes: 0 within bounds, 1 drift, 2 a mistake."""
    from homeostat.gate import judge
    from homeostat.gate.cache import CacheBounds, cache_checks

    bounds = CacheBounds(
        min_auc=min_auc,
        min_auc_gain=min_auc_gain,
        min_gain_over_heuristic=min_gain_over_heuristic,
        max_clean_regression=max_clean_regression,
        max_sensitivity_ratio=max_sensitivity_ratio,
        min_throughput=min_throughput,
        max_drop=max_drop,
    )
    checks = cache_checks(run_dir, bounds, defence=defence, confident=confident, baseline=baseline)
    raise typer.Exit(judge(run_dir, checks, junit, markdown))
