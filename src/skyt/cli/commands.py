"""`homeostat code …`: from a contract to a run, its metrics and its repair."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.core.entry import Contracts, Engine, Overrides, named_contracts
from homeostat.core.errors import UserError
from skyt.cli.contracts import contracts_app
from skyt.contracts.defaults import DEFAULT_INPUTS, DEFAULT_SAMPLES, DEFAULT_TAU, DEFAULT_TEMPERATURE
from skyt.serve.cli.commands import register

if TYPE_CHECKING:
    from skyt.runs.suite import Generated

app = typer.Typer(
    help=(
        "Output: anchor a prompt to one canon, measure how far generated code strays from it, repair it.\n\n"
        "Start with `homeostat code run is_even -n 12`: it samples the default model and ends with a "
        "table."
    ),
    no_args_is_help=True,
)

_SHOWN = 10  # failures of a run that are printed


class Evidence(StrEnum):
    rewritten = "rewritten"
    equivalent = "equivalent"


Tau = Annotated[float, typer.Option("--tau", help="Threshold of P_tau, between 0 and 1.")]
Seed = Annotated[int, typer.Option("--seed", help="Seeds sampling and generated inputs.")]
EvidenceOption = Annotated[
    Evidence,
    typer.Option(
        "--evidence",
        help="Minimum evidence for replacing a sample. `rewritten`: the same normal form, the "
        "same verdict, and no difference when both are run. `equivalent`: the last two alone.",
    ),
]
Inputs = Annotated[
    int, typer.Option("--inputs", help="Generated inputs on which a sample is compared with the canon.")
]
CanonDir = Annotated[
    Path | None,
    typer.Option("--canon-dir", metavar="DIR", help="Keep canons here, across runs; default: in the run."),
]
ReAnchor = Annotated[
    bool,
    typer.Option("--re-anchor", help="Archive the canons (and rows measured against them) and fix new ones."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes for judging and repairing; default: one per core."),
]
Uncontained = Annotated[
    bool,
    typer.Option(
        "--i-accept-running-untrusted-code-unsandboxed",
        help="Run generated code even where this machine cannot contain it. By default it is refused.",
    ),
]


class CanonPolicy(StrEnum):
    first = "first"
    modal = "modal"


class DurabilityChoice(StrEnum):
    process = "process"
    full = "full"


CanonOption = Annotated[
    CanonPolicy,
    typer.Option(
        "--canon",
        help="What becomes the canon: the `first` compliant output, or the most frequent normal form "
        "(`modal`) of the compliant ones.",
    ),
]
TrustCanons = Annotated[
    bool,
    typer.Option(
        "--trust-canons",
        help="Use canons that the oracle rejects or whose contract has changed; what was found is recorded.",
    ),
]
DurabilityOption = Annotated[
    DurabilityChoice,
    typer.Option(
        "--durability", help="`full`: records are synced to the disk at each append, against a power cut."
    ),
]
FailOnError = Annotated[
    bool,
    typer.Option(
        "--fail-on-error",
        help="Measure nothing while an output is missing. By default the others are measured, and the exit "
        "code is 1.",
    ),
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Records and metrics only.")]
SampleId = Annotated[str, typer.Argument(metavar="SAMPLE", help="A sample_id of samples.jsonl, e.g. 12.")]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The --out of an earlier command.")]


@app.command()
def run(
    contract: Annotated[
        str,
        typer.Argument(
            help="A contract's id (`homeostat list contracts`), or a folder: every contract in it.",
            autocompletion=named_contracts,
        ),
    ],
    n: Annotated[int, typer.Option("-n", help="Samples.")] = DEFAULT_SAMPLES,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Sampling temperature.")
    ] = DEFAULT_TEMPERATURE,
    tau: Tau = DEFAULT_TAU,
    seed: Seed = 0,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Local model (alias, hub id, folder), or a name at --base-url."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="An OpenAI-compatible endpoint, e.g. http://localhost:8000/v1."),
    ] = None,
    evidence: EvidenceOption = Evidence.rewritten,
    inputs: Inputs = DEFAULT_INPUTS,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/code-CONTRACT."
        ),
    ] = None,
    contracts: Contracts = None,
    canon_dir: CanonDir = None,
    re_anchor: ReAnchor = False,
    canon: CanonOption = CanonPolicy.first,
    trust_canons: TrustCanons = False,
    durability: DurabilityOption = DurabilityChoice.process,
    workers: Workers = None,
    no_figures: NoFigures = False,
    fail_on_error: FailOnError = False,
    uncontained: Uncontained = False,
    overrides: Overrides = None,
) -> None:
    """Sample one prompt, or all of a folder, anchor each, measure and repair every output.

    The first compliant output becomes the canon (or `--canon modal`). The same command again continues where
    it stopped.

    Example: homeostat code run is_even -n 12 --temperature 0.7
    """
    from homeostat.core.config import load_config
    from skyt.metrics.formulas import check_tau
    from skyt.runs.config import RunConfig, SuiteConfig
    from skyt.runs.measure import RunOptions
    from skyt.runs.suite import as_suite, run_one, run_suite

    check_tau(tau)
    generator: dict[str, Any] = {"kind": "openai", "base_url": base_url, "name": model} if base_url else {}
    if base_url and not model:
        raise UserError("--base-url needs --model: the model's name at the endpoint")
    if model and not base_url:
        generator = {"model": {"name": model}}
    options = _measuring(tau, seed, evidence, inputs, uncontained, canon, trust_canons)
    options |= {"contract": contract, "n": n, "temperature": temperature}
    options["generator"] = {"kind": "local", **generator}
    config = load_config(RunConfig, options, overrides or [])
    run_options = RunOptions(
        canon_dir, re_anchor, workers, not no_figures, durability.value, contracts, fail_on_error
    )
    if Path(contract).is_dir():
        suite_config: SuiteConfig = as_suite(config, Path(contract))
        run_options = replace(run_options, contracts=Path(contract))
        _report(
            run_suite(suite_config, out, run_options, Path(contract), name=Path(contract).name), no_figures
        )
    else:
        _report(run_one(config, out, run_options, contracts), no_figures)


@app.command()
def suite(
    matrix: Annotated[Path, typer.Argument(metavar="MATRIX.yaml", help="Prompts × models × temperatures.")],
    engine: Engine = "local",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, resumed if it exists; default: runs/code-MATRIX."
        ),
    ] = None,
    tau: Annotated[
        float | None, typer.Option("--tau", help="Threshold of P_tau; default: the file's.")
    ] = None,
    contracts: Contracts = None,
    canon_dir: CanonDir = None,
    re_anchor: ReAnchor = False,
    canon: CanonOption = CanonPolicy.first,
    trust_canons: TrustCanons = False,
    durability: DurabilityOption = DurabilityChoice.process,
    workers: Workers = None,
    no_figures: NoFigures = False,
    fail_on_error: FailOnError = False,
    overrides: Overrides = None,
) -> None:
    """Every prompt with every model at every temperature; one canon per prompt over all of them.

    `configs/skyt/suite.yaml` is an example to copy. With `--engine ray` the cells are spread over a Ray
    cluster whose machines share the run directory.

    Example: homeostat code suite configs/skyt/suite.yaml --set n=5
    """
    from homeostat.core.config import load_config
    from skyt.metrics.formulas import check_tau
    from skyt.runs.config import SuiteConfig
    from skyt.runs.measure import RunOptions
    from skyt.runs.suite import run_suite

    # Left out at their defaults, so that the file's own settings hold.
    options: dict[str, Any] = {} if tau is None else {"tau": check_tau(tau)}
    options |= {"canon": canon.value} if canon is not CanonPolicy.first else {}
    options |= {"trust_canons": True} if trust_canons else {}
    config = load_config(SuiteConfig, matrix, overrides or [], options=options)
    run_options = RunOptions(
        canon_dir, re_anchor, workers, not no_figures, durability.value, contracts, fail_on_error
    )
    _report(run_suite(config, out, run_options, contracts, engine, matrix), no_figures)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl[.gz]", help="Recorded generations.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Run directory, resumed if it exists; default: runs/code-replay-….",
        ),
    ] = None,
    canons: Annotated[
        Path | None,
        typer.Option(
            "--canons", metavar="FILE.json", help="Canons to use: [{contract_id, canonical_code}, …]."
        ),
    ] = None,
    tau: Tau = DEFAULT_TAU,
    seed: Seed = 0,
    evidence: EvidenceOption = Evidence.rewritten,
    inputs: Inputs = DEFAULT_INPUTS,
    contracts: Contracts = None,
    canon_dir: CanonDir = None,
    re_anchor: ReAnchor = False,
    canon: CanonOption = CanonPolicy.first,
    trust_canons: TrustCanons = False,
    durability: DurabilityOption = DurabilityChoice.process,
    workers: Workers = None,
    no_figures: NoFigures = False,
    uncontained: Uncontained = False,
) -> None:
    """Measure and repair generations recorded earlier; no model is needed.

    A row is {"contract_id", "model", "temperature", "sample", "raw_output"}; other keys are ignored. A broken
    line is reported with its number, the rest is processed, and the exit code is 1.

    Example: homeostat code replay runs/code-gcd/samples.jsonl --out runs/replay
    """
    from homeostat.core.config import parse_config
    from skyt.metrics.formulas import check_tau
    from skyt.metrics.table import show_metrics
    from skyt.runs.config import BatchConfig
    from skyt.runs.measure import RunOptions
    from skyt.runs.replay import replay as replay_file

    check_tau(tau)
    options = _measuring(tau, seed, evidence, inputs, uncontained, canon, trust_canons)
    settings = parse_config(BatchConfig, options, "the options")
    run_options = RunOptions(canon_dir, re_anchor, workers, not no_figures, durability.value, contracts)
    done = replay_file(file, out, settings, run_options, canons=canons, contracts_dir=contracts)
    show_metrics(done.metrics)
    _say_where(done.folder, no_figures)
    for line in done.broken:
        print(f"{file}, line {line.number}: {line.problem}", file=sys.stderr)
    if done.broken:
        print(f"{len(done.broken)} line(s) of {file} were left out", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def metrics(
    run_dir: RunDirectory,
    tau: Annotated[float | None, typer.Option("--tau", help="Another threshold than the run's.")] = None,
) -> None:
    """Compute every metric again from the run's records, and check every line of its files.

    Example: homeostat code metrics runs/code-gcd --tau 0.2
    """
    from skyt.metrics.summary import summarise_again
    from skyt.metrics.table import show_metrics

    show_metrics(summarise_again(run_dir, tau))


@app.command()
def plots(run_dir: RunDirectory) -> None:
    """Draw the figures of a run again from its records.

    Example: homeostat code plots runs/code-gcd
    """
    from skyt.metrics.figures import draw_all

    for path in draw_all(run_dir, run_dir / "paper" / "figures"):
        if path.suffix == ".png":
            print(path)


@app.command()
def diff(
    run_dir: RunDirectory,
    sample: SampleId,
) -> None:
    """Show how one sample differs from its canon, before and after repair.

    Example: homeostat code diff runs/code-gcd 3
    """
    from skyt.runs.diff import show_diff

    show_diff(run_dir, sample)


@app.command()
def explain(
    run_dir: RunDirectory,
    sample: SampleId,
) -> None:
    """Show the rules that lead from a sample to its canon, or the call on which the two differ.

    Example: homeostat code explain runs/code-gcd 3
    """
    from skyt.runs.explain import show_explanation

    show_explanation(run_dir, sample)


app.add_typer(contracts_app, name="contracts")
register(app)  # serve, status, export, import, keys, canon


def _measuring(
    tau: float,
    seed: int,
    evidence: Evidence,
    inputs: int,
    uncontained: bool,
    canon: CanonPolicy,
    trust_canons: bool,
) -> dict[str, Any]:
    """The options of every measuring command, as settings."""
    return {
        "tau": tau,
        "seed": seed,
        "evidence": evidence.value,
        "inputs": inputs,
        "allow_uncontained": uncontained,
        "canon": canon.value,
        "trust_canons": trust_canons,
    }


def _report(done: Generated, no_figures: bool) -> None:
    """Show the table of a run, and what it lacks (exit code 1)."""
    if done.metrics is not None:
        from skyt.metrics.table import show_metrics

        show_metrics(done.metrics)
        _say_where(done.folder, no_figures)
    if done.failures:
        for line in done.failures[:_SHOWN]:
            print(line, file=sys.stderr)
        if len(done.failures) > _SHOWN:
            print(f"… and {len(done.failures) - _SHOWN} more", file=sys.stderr)
        print(
            f"{done.recorded} of {done.wanted} outputs are on record in {done.folder}; run the same command "
            f"again to ask for the rest, those on record are not asked for twice",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _say_where(folder: Path, no_figures: bool) -> None:
    print(f"{'records and metrics' if no_figures else 'records, metrics and figures'}: {folder}")
