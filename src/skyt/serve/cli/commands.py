"""`homeostat code serve`, `status`, `export`, `import`, `keys`, `canon`: thin, with heavy imports inside."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from homeostat.core.entry import Contracts, Overrides, named_contracts
from homeostat.core.errors import UserError, nearest
from homeostat.core.rundir import unused_out
from skyt.contracts.defaults import DEFAULT_TAU
from skyt.serve.cli.canon_commands import canon
from skyt.serve.cli.opening import needs_extra, opened_store

_DEFAULT_DATABASE = "skyt.sqlite"
Database = Annotated[
    str,
    typer.Option("--database", metavar="FILE|URL", help="A SQLite file or a postgresql:// URL."),
]
keys = typer.Typer(help="API keys of the service.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `homeostat code`."""
    app.command()(serve)
    app.command()(status)
    app.command()(export)
    app.command("import")(import_)
    app.add_typer(keys, name="keys")
    app.add_typer(canon, name="canon")


def serve(
    config: Annotated[str | None, typer.Option("--config", help="YAML with ServeConfig's keys.")] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible endpoint; default: the local model.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model behind skyt/<contract>: at the upstream, or a local one.")
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", metavar="FILE|URL", help="Default: skyt.sqlite.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Default: 8080; 0 for any free one.")] = None,
    contracts: Contracts = None,
    re_anchor: Annotated[
        list[str] | None,
        typer.Option("--re-anchor", metavar="CONTRACT", help="Archive this canon first; may be repeated."),
    ] = None,
    trust_canons: Annotated[
        bool,
        typer.Option(
            "--trust-canons",
            help="Use canons that the oracle rejects or whose contract has changed; recorded.",
        ),
    ] = False,
    overrides: Overrides = None,
) -> None:
    """Serve an OpenAI-compatible endpoint that anchors and repairs generated code.

    Example: homeostat code serve --upstream http://127.0.0.1:11434/v1 --model qwen2.5-coder
    """
    from homeostat.core.config import load_config

    options: list[str] = []
    if upstream is not None:
        options += ["upstream.kind=http", f"upstream.base_url={json.dumps(upstream)}"]
    elif config is None:
        options += ["upstream.kind=local"]
    if model is not None:
        local = "upstream.model.name" if upstream is None and config is None else "upstream.model"
        options += [f"{local}={json.dumps(model)}"]
    for name, value in {"database": database, "host": host, "port": port}.items():
        options += [f"{name}={json.dumps(value)}"] * (value is not None)
    options += ["measure.trust_canons=true"] * trust_canons
    with needs_extra():
        from skyt.contracts.contract import load_contracts
        from skyt.serve.config import ServeConfig
        from skyt.serve.service import Service
        from skyt.serve.web.server import serve as run

        settings = load_config(ServeConfig, config, [*options, *(overrides or [])])
        run(Service(settings, load_contracts(contracts), re_anchor=re_anchor or []))
    # All is closed and on record. An interpreter with many threads may take a second to end by itself.
    sys.stdout.flush()
    os._exit(0)


def status(
    database: Database = _DEFAULT_DATABASE,
    tau: Annotated[float, typer.Option("--tau", help="Threshold of P_tau.")] = DEFAULT_TAU,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show the metrics of every contract the service has samples of.

    Example: homeostat code status --database skyt.sqlite
    """
    from skyt.metrics.formulas import check_tau

    check_tau(tau)
    with opened_store(database) as store:
        from skyt.serve.database.live import standings

        rows = [asdict(standing) for standing in standings(store, tau)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    _show(rows)


def export(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="A folder that is not there yet; default: runs/code-export."
        ),
    ] = None,
    database: Database = _DEFAULT_DATABASE,
    ledger: Annotated[
        str | None, typer.Option(help="Which sequence of samples; default: the service's current one.")
    ] = None,
    tau: Annotated[float, typer.Option("--tau", help="Threshold of P_tau.")] = DEFAULT_TAU,
) -> None:
    """Write samples, canons and metrics of the database as the folder of a run, with its fixed CSVs.

    Example: homeostat code export --out runs/served
    """
    from skyt.metrics.formulas import check_tau

    check_tau(tau)
    with opened_store(database) as store:
        from skyt.serve.database.transfer import export as write

        folder = out or unused_out("code-export")
        done = write(store, folder, ledger, tau)
    print(f"{done.samples} samples and {done.canons} canons of {done.ledger}: {folder}")


def import_(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a run.")],
    database: Database = _DEFAULT_DATABASE,
    name: Annotated[str | None, typer.Option(help="Name of its ledger; default: the run's id.")] = None,
) -> None:
    """Read the folder of a run into the database; the service then uses its canons.

    Example: homeostat code import runs/code-gcd
    """
    with opened_store(database, create=True) as store:
        from skyt.serve.database.transfer import import_run

        done = import_run(store, run_dir, name)
    print(f"{done.samples} samples and {done.canons} canons in ledger {done.ledger}")


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whom the key is for.")],
    contract: Annotated[
        list[str] | None,
        typer.Option(
            "--contract", help="Only this contract; may be repeated.", autocompletion=named_contracts
        ),
    ] = None,
    contracts: Contracts = None,
    per_minute: Annotated[
        int | None, typer.Option("--per-minute", help="Requests in any minute; default: the service's limit.")
    ] = None,
    manage: Annotated[
        bool, typer.Option("--manage", help="The key may approve and re-anchor canons on the page.")
    ] = False,
    database: Database = _DEFAULT_DATABASE,
) -> None:
    """Make a key and print it once; only its hash is kept."""
    from skyt.contracts.contract import load_contracts

    every = load_contracts(contracts)
    for wanted in contract or []:
        if wanted not in every:
            raise UserError(f"--contract {wanted!r} is unknown; {nearest(wanted, every)}")
    with opened_store(database, create=True) as store:
        from skyt.serve.database.keys import add_key

        print(add_key(store, name, contract or [], per_minute=per_minute, manages=manage))


@keys.command("list")
def list_(database: Database = _DEFAULT_DATABASE) -> None:
    """Show valid keys: names and contracts."""
    with opened_store(database) as store:
        from skyt.serve.database.keys import valid_keys

        for key in valid_keys(store):
            allowed = ", ".join(sorted(key.contracts or ())) or "all contracts, pass-through"
            rate = [f"{key.per_minute} per minute"] * (key.per_minute is not None)
            print("\t".join([key.name, allowed, *rate, *["manages canons"] * key.manages]))


@keys.command("revoke")
def revoke(name: str, database: Database = _DEFAULT_DATABASE) -> None:
    """Make a key invalid; the service notices within seconds."""
    with opened_store(database) as store:
        from skyt.serve.database.keys import revoke_key

        revoke_key(store, name)


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from skyt.records.store import USAGE

    def change(numbers: dict[str, float], name: str) -> str:
        return f"{numbers[f'{name}_pre']:.3f} → {numbers[f'{name}_post']:.3f}"

    table = Table("contract", "N", "R_raw", "R_anchor", "mu", "P_tau", "rescue", "canon")
    for row in rows:
        numbers = row["metrics"]
        table.add_row(
            row["prompt_id"],
            str(numbers["N"]),
            *(f"{numbers[name]:.3f}" for name in ("R_raw", "R_anchor")),
            *(change(numbers, name) for name in ("mu", "P_tau")),
            f"{numbers['rescue_rate']:.3f}",
            (row["canon_signature"] or "none")[:8],
        )
    Console().print(table if rows else "no samples yet: send a request that matches a contract")
    spent = {row["prompt_id"]: row["usage"] for row in rows if row["usage"]}
    if len(spent) > 1:
        spent["total"] = {name: sum(usage.get(name, 0) for usage in spent.values()) for name in USAGE}
    for name, usage in spent.items():
        tokens = " and ".join(
            f"{usage.get(f'{kind}_tokens', 0):,} {kind}" for kind in ("prompt", "completion")
        )
        print(f"{name}: {tokens} tokens" + (f", cost {usage['cost']:.4g}" if usage.get("cost") else ""))
