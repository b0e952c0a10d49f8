"""`homeostat code contracts …`: contracts from what people already have, and how strong they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from homeostat.core import threads
from homeostat.core.entry import Contracts
from homeostat.core.errors import UserError

contracts_app = typer.Typer(
    help="Contracts: write, show and import them, and find out how strong they are.",
    no_args_is_help=True,
)
_IMPORT = re.compile(r"imports (\w+), which")
_SHOWN = 3  # differences of one contract that are printed

Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that run programs; default: one per core.")
]
Uncontained = Annotated[
    bool,
    typer.Option(
        "--i-accept-running-untrusted-code-unsandboxed",
        help="Run references and tests even where this machine cannot contain them.",
    ),
]


@contracts_app.command()
def show(
    contract: Annotated[str, typer.Argument(metavar="NAME|FILE", help="An id, or a file (YAML or Python).")],
    folder: Contracts = None,
) -> None:
    """Print a contract as YAML, whatever it was written in, with everything that was filled in.

    Example: homeostat code contracts show gcd
    """
    from skyt.contracts.contract import load_contract
    from skyt.contracts.importers import as_yaml

    print(as_yaml(load_contract(contract, folder)), end="")


@contracts_app.command()
def judge(
    contract: Annotated[str, typer.Argument(metavar="NAME|FILE", help="An id, or a file (YAML or Python).")],
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.py", help="The program to judge.")],
    folder: Contracts = None,
    uncontained: Uncontained = False,
) -> None:
    """Judge one program, and show the smallest call on which it does not do what the contract says.

    The program runs in the sandbox. The exit code is 1 for a program that is refused.

    Example: homeostat code contracts judge gcd my_gcd.py
    """
    from homeostat.core.errors import unreadable
    from skyt.contracts.contract import load_contract
    from skyt.oracle.oracle import Oracle
    from skyt.sandbox import SandboxPool

    target = load_contract(contract, folder)
    try:
        text = program.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(program, error)) from None
    with SandboxPool(1, allow_uncontained=uncontained) as pool:
        verdict = Oracle(pool).smallest(text, target)
    if verdict.compliant:
        print(f"{program} does what {target.id} asks for, as far as {target.oracle.tried} calls show")
        return
    print("\n".join(verdict.failures))
    refused = [match[1] for match in map(_IMPORT.match, verdict.failures) if match]
    if refused:
        names = ", ".join([*target.constraints.imports, *refused])
        print(f"to allow this, write in the contract: constraints: {{imports: [{names}]}}")
    raise typer.Exit(1)


@contracts_app.command()
def new(
    name: Annotated[str, typer.Argument(help="The name of the function, and of the file NAME.py.")],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="MODULE:FUNCTION", help="A function to start from: the reference."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Where to write NAME.py. Default: the folder you are in."),
    ] = Path(),
) -> None:
    """Write the beginning of a contract in Python: from a function of yours, or by asking four questions.

    Example: homeostat code contracts new total --from shop/prices.py:total
    """
    from homeostat.core import atomic
    from skyt.contracts.importers.new import from_answers, from_function
    from skyt.contracts.importers.python_file import python_contract

    path = out / f"{name}.py"
    if not name.isidentifier():
        raise UserError(f"{name!r} is not the name of a function")
    if path.exists():
        raise UserError(f"{path} exists: choose another name, or move it away")
    if source is not None:
        text = from_function(name, source)
    else:
        text = from_answers(
            typer.prompt("Signature", default=f"{name}(n: int) -> int"),
            typer.prompt("What does it do?"),
            typer.prompt("A call of it", default=f"{name}(3)"),
            typer.prompt("It returns"),
        )
    python_contract(text, str(path))
    out.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    print(f"{path}: try it with `homeostat code run {path}`")


@contracts_app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="EvalPlus or HumanEval tasks (.jsonl, .jsonl.gz), or a pytest file (.py)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The folder of contracts to write. Default: a folder here, named after the file.",
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="MODULE:NAME",
            help="Of a pytest file: the function that its tests are about.",
        ),
    ] = None,
    workers: Workers = None,
    uncontained: Uncontained = False,
) -> None:
    """Write a contract for every task of a file, or for the function that a pytest file tests.

    Of a task, the canonical solution is the reference and must pass the new contract. Tasks that cannot be
    imported are reported, one line each; the others are written, and the exit code is then 1.

    Example: homeostat code contracts import test_prices.py --function prices:total --out contracts
    """
    from skyt.runs.importing import import_contracts

    if (file.suffix == ".py") != (function is not None):
        raise UserError("--function MODULE:NAME goes with a pytest file (.py), and only with that")
    out = out or Path(file.name.split(".")[0])
    report = import_contracts(
        file, out, function=function, workers=workers or threads.cores(), allow_uncontained=uncontained
    )
    for line in (*report.notes, *report.problems):
        print(line, file=sys.stderr)
    print(f"{len(report.written)} contracts in {out}" + _left_out(len(report.problems)))
    if report.problems:
        raise typer.Exit(1)


@contracts_app.command()
def check(
    contract: Annotated[
        str,
        typer.Argument(
            metavar="DIR|NAME|FILE", help="A folder of contracts, an id, or a file (YAML or Python)."
        ),
    ],
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="Mutants of each reference.")] = 20,
    inputs: Annotated[
        int, typer.Option("--inputs", min=1, help="Inputs on which an accepted mutant is compared.")
    ] = 300,
    workers: Workers = None,
    uncontained: Uncontained = False,
) -> None:
    """How strong each contract is: small changes to its reference that its oracle fails to reject.

    An accepted mutant is missed if a call tells it from the reference; the shortest such calls are shown.
    What is found in a folder is kept in DIR/strength.json, and reports of runs with its contracts say which
    are weak.

    Example: homeostat code contracts check contracts/humaneval
    """
    from skyt.contracts.contract import load_contract, read_contracts
    from skyt.runs.strength import check_contracts, keep
    from skyt.sandbox import SandboxPool

    folder = Path(contract)
    one = None if folder.is_dir() else load_contract(contract)
    contracts = read_contracts(folder) if one is None else {one.id: one}
    if not contracts:
        raise UserError(f"no contracts in {folder}: a contract is a .yaml file")
    with SandboxPool(workers or threads.cores(), allow_uncontained=uncontained) as pool:
        strengths = check_contracts(contracts, pool, count=mutants, inputs=inputs)
    for row in strengths:
        share = "" if row.score is None else f"{row.rejected} of {row.rejected + row.missed} mutants rejected"
        words = [row.problem or share or "no mutant behaves differently", "WEAK" if row.weak else ""]
        print(f"{row.contract_id}: {', '.join(filter(None, words))}")
        for line in row.differences[:_SHOWN]:
            print(f"    accepted: {line}")
    rejected, missed = sum(s.rejected for s in strengths), sum(s.missed for s in strengths)
    print(
        f"{len(strengths)} contracts: {rejected} of {rejected + missed} mutants rejected, "
        f"{sum(s.alike for s in strengths)} more that no call tells from the reference; "
        f"{sum(s.weak for s in strengths)} weak"
        + (f"; kept in {keep(strengths, folder)}" if one is None else "")
    )


def _left_out(number: int) -> str:
    return f"; {number} left out" if number else ""
