"""`homeostat code canon …`: look at canons and manage them, in folders and in databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from homeostat.core.errors import UserError, nearest

if TYPE_CHECKING:
    from skyt.canon import Canon, Shelf
    from skyt.contracts.contract import Contract
    from skyt.runs.canons import Judge

canon = typer.Typer(
    help="Canons: list, show, compare, set, approve; who did what, when and why.", no_args_is_help=True
)
Where = Annotated[
    str,
    typer.Argument(
        metavar="WHERE", help="A run's folder, a --canon-dir, a SQLite file or a postgresql:// URL."
    ),
]
Name = Annotated[str, typer.Argument(metavar="CONTRACT", help="A contract's id, e.g. gcd.")]
Contracts = Annotated[
    Path | None, typer.Option("--contracts", metavar="DIR", help="A folder with contracts of your own.")
]
Why = Annotated[str, typer.Option("--why", help="The reason, for the record.")]
Who = Annotated[str | None, typer.Option("--who", help="Your name, for the record; default: the user's.")]
Trust = Annotated[
    bool, typer.Option("--trust-canons", help="Even if the oracle rejects it; what it found is recorded.")
]


class _Place(NamedTuple):
    """Where canons are, and the run they belong to, if it is the folder of one."""

    shelf: Shelf
    run: Path | None


@canon.command("list")
def list_(where: Where, contracts: Contracts = None) -> None:
    """List canons, with what the contracts and versions of today have against them.

    Example: homeostat code canon list runs/code-gcd
    """
    with _opened(where) as place:
        current_contracts = _contracts(contracts)
        rows = [
            [prompt, *_line(place.shelf, prompt, current_contracts.get(prompt))]
            for prompt in place.shelf.prompts()
        ]
    if not rows:
        print(f"no canons in {where}")
        return
    rows.insert(0, ["contract", "canon", "origin", "fixed", "approved", "state"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


@canon.command()
def show(where: Where, name: Name) -> None:
    """Print one canon: its code, and what it rests on.

    Example: homeostat code canon show runs/code-gcd gcd
    """
    with _opened(where) as place:
        current = _present(place.shelf, name)
    identity = f"{current.prompt_id}@{current.canon_signature[:12]}"
    print(f"# {identity}, {current.origin}, {current.fixed_at_timestamp}")
    print(f"# model {current.model}, temperature {current.temperature}")
    print(f"# normalisation {current.normalization_version}, oracle {current.oracle_version}")
    print(current.normalized_code)


@canon.command()
def diff(
    where: Where,
    name: Name,
    other: Annotated[
        str | None,
        typer.Argument(help="A Python file, or another folder or database; default: the canon before it."),
    ] = None,
    contracts: Contracts = None,
) -> None:
    """Show how a canon differs from the one before it or from a program, and its contract from today's.

    Example: homeostat code canon diff runs/code-gcd gcd other.py
    """
    import difflib

    from skyt.canon import contract_differences

    with _opened(where) as place:
        current = _present(place.shelf, name)
        title, text = _other(place.shelf, name, other)
    lines = difflib.unified_diff(
        text.splitlines(), current.normalized_code.splitlines(), title, "canon", lineterm=""
    )
    print("\n".join(lines) or f"the same program as {title}")
    current_contracts = _contracts(contracts)
    for line in contract_differences(current, current_contracts[name]) if name in current_contracts else ():
        print(f"contract: {line}")


@canon.command("set")
def set_(
    where: Where,
    name: Name,
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.py", help="The program to become the canon.")],
    why: Why,
    who: Who = None,
    trust: Trust = False,
    contracts: Contracts = None,
) -> None:
    """Make a program the canon. The old canon is archived, and so are the rows measured against it.

    Example: homeostat code canon set runs/code-gcd gcd better.py --why "reviewed, shorter"
    """
    from skyt.runs.canons import set_canon

    try:
        code = program.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {program}: {error}") from None
    with _managing(where, name, contracts) as (place, contract, judge):
        old = place.shelf.read(name)
        new = set_canon(place.shelf, contract, code, judge, who=_who(who), why=why, trust=trust)
        _say(place, old, new, "set")


@canon.command()
def approve(
    where: Where,
    name: Name,
    why: Why,
    who: Who = None,
    trust: Trust = False,
    contracts: Contracts = None,
) -> None:
    """Confirm a canon after it is judged by the contract and the oracle of today.

    A canon of another contract or of other versions is renewed under today's; its old record is archived.

    Example: homeostat code canon approve skyt.sqlite gcd --why "contract only reworded"
    """
    from skyt.runs.canons import approve as approve_canon

    with _managing(where, name, contracts) as (place, contract, judge):
        old = place.shelf.read(name)
        new = approve_canon(place.shelf, contract, judge, who=_who(who), why=why, trust=trust)
        _say(place, old, new, "approved")


@canon.command()
def history(where: Where, name: Name) -> None:
    """Print every canon a prompt has had, and who did what with it, when and why.

    Example: homeostat code canon history runs/code-gcd gcd
    """
    with _opened(where) as place:
        present = place.shelf.read(name)
        canons = [*place.shelf.archived(name), *([present] if present else [])]
        lines = [
            (c.fixed_at_timestamp, f"fixed     {c.canon_signature[:12]}  {c.origin}, {_source(c)}")
            for c in canons
        ]
        for event in place.shelf.events(name):
            to = (event.canon_signature or "none")[:12]
            objections = f" (in spite of: {'; '.join(event.findings)})" if event.findings else ""
            lines.append(
                (event.timestamp, f"{event.action:<9} {to}  by {event.who}: {event.why}{objections}")
            )
    if not lines:
        raise UserError(f"{name!r} has no canon in {where} and never had one")
    for moment, line in sorted(lines, key=lambda pair: pair[0]):
        print(f"{moment}  {line}")


def _source(current: Canon) -> str:
    return "no model" if current.model is None else f"{current.model} at {current.temperature:g}"


def _line(shelf: Shelf, prompt: str, contract: Contract | None) -> list[str]:
    from skyt.canon import contract_differences, shortened
    from skyt.runs.judging.assess import versions

    try:
        current = shelf.read(prompt)
    except UserError as error:
        return ["", "", "", "", str(error)]
    if current is None:
        return ["", "", "", "", "gone"]
    approvals = [
        event
        for event in shelf.events(prompt)
        if event.action == "approved" and event.canon_signature == current.canon_signature
    ]
    approved = f"{approvals[-1].who}, {approvals[-1].timestamp[:10]}" if approvals else "no"
    state = []
    if current.versions != versions():
        state.append(f"oracle {current.oracle_version}, normalisation {current.normalization_version}")
    if contract is None:
        state.append("no such contract")
    elif changed := contract_differences(current, contract):
        state.append(f"contract changed: {shortened(changed, 2)}")
    return [
        current.canon_signature[:12],
        current.origin,
        current.fixed_at_timestamp[:19],
        approved,
        "; ".join(state) or "ok",
    ]


def _present(shelf: Shelf, name: str) -> Canon:
    current = shelf.read(name)
    if current is None:
        raise UserError(f"{name!r} has no canon there; {nearest(name, shelf.prompts())}")
    return current


def _other(shelf: Shelf, name: str, other: str | None) -> tuple[str, str]:
    from skyt.runs.judging.assess import prepare

    if other is None:
        before = shelf.archived(name)
        if not before:
            raise UserError(f"{name!r} had no canon before this one: name a program to compare it with")
        return f"{before[-1].canon_signature[:12]}, archived", before[-1].normalized_code
    if other.endswith(".py"):
        try:
            return other, prepare(Path(other).read_text(encoding="utf-8")).text
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {other}: {error}") from None
    with _opened(other) as place:
        return other, _present(place.shelf, name).normalized_code


def _say(place: _Place, old: Canon | None, new: Canon, done: str) -> None:
    print(f"{done}: {new.prompt_id}@{new.canon_signature[:12]}")
    if place.run is not None and old is not None and old.canon_signature != new.canon_signature:
        from skyt.runs.measure import archive_rows

        rows = archive_rows(place.run)
        if rows is not None:
            print(f"rows measured against the old canon: {rows}; run the command again to measure anew")


def _who(given: str | None) -> str:
    from skyt.canon.history import whoever

    return given or whoever()


def _contracts(folder: Path | None) -> dict[str, Contract]:
    from skyt.contracts.contract import load_contracts

    return load_contracts(folder)


@contextmanager
def _managing(where: str, name: str, folder: Path | None) -> Iterator[tuple[_Place, Contract, Judge]]:
    from skyt.runs.config import MeasureConfig
    from skyt.runs.judging.assess import Assessor

    current_contracts = _contracts(folder)
    if name not in current_contracts:
        raise UserError(f"unknown contract {name!r}; {nearest(name, current_contracts)}")
    with _opened(where) as place, Assessor(MeasureConfig()) as assessor:
        yield place, current_contracts[name], assessor.verdict


@contextmanager
def _opened(where: str) -> Iterator[_Place]:
    """A folder of canons, the `canon` folder of a run, or a database."""
    from skyt.canon import CanonStore
    from skyt.runs.judging.assess import versions

    path = Path(where)
    if "://" not in where and path.is_dir():
        run = path if (path / "run_record.json").exists() else None
        folder = path / "canon" if run is not None or (path / "canon").is_dir() else path
        yield _Place(CanonStore(folder, versions()), run)
        return
    if "://" not in where and not path.exists():
        raise UserError(f"{where}: no such folder or database")
    from skyt.serve.cli.opening import opened_store

    with opened_store(where) as store:
        yield _Place(store, None)
