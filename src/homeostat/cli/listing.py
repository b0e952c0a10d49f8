"""`homeostat list …`: what there is to name in other commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from homeostat.core.entry import Contracts

app = typer.Typer(help="List what other commands can name: contracts, configurations, rules, runs.")
Json = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


@app.callback(invoke_without_command=False)
def _group() -> None:
    pass


@app.command()
def contracts(folder: Contracts = None, as_json: Json = False) -> None:
    """Prompts that code can be sampled for: `homeostat code run CONTRACT`.

    Example: homeostat list contracts
    """
    from skyt.contracts.contract import load_contracts

    rows = [{"contract": c.id, "asks for": _line(c.prompt)} for c in load_contracts(folder).values()]
    _show(rows, as_json)


@app.command()
def configs(as_json: Json = False) -> None:
    """Configurations that come with the program, and the command each is for.

    Example: homeostat list configs
    """
    from cachemedicpp.engines.campaign.config import CampaignConfig
    from cachemedicpp.sweep.run import SweepConfig
    from cachemedicpp.tasks.config import MedicConfig
    from homeostat.core import resources
    from homeostat.core.config import ConfigModel, fits
    from homeostat.joint.config import JointConfig
    from skyt.runs.config import SuiteConfig

    models: dict[str, type[ConfigModel]] = {
        "cache run": MedicConfig,
        "cache sweep": SweepConfig,
        "engine campaign": CampaignConfig,
        "joint": JointConfig,
        "code suite": SuiteConfig,
    }
    rows = []
    for name in resources.shipped("configs"):
        path = resources.resource(f"configs/{name}.yaml")
        uses = [command for command, model in models.items() if fits(model, path)]
        command = f"homeostat {uses[0]} {name}" if uses else "a part of others, or another command's"
        rows.append({"config": name, "for": command, "about": _comment(path)})
    _show(rows, as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """Models that are known by name, where they are, their size and licence.

    Any hub id, local folder or GGUF file works too.

    Example: homeostat list models
    """
    import yaml

    from homeostat.core import resources
    from homeostat.core.models import CATALOGUE, ready

    rows = [
        {
            "model": model.name,
            "state": ready(model) or "to fetch",
            "download": f"{model.download / 1e6:,.0f} MB",
            "licence": model.licence,
            "about": model.about,
        }
        for model in CATALOGUE.values()
    ]
    for name in resources.shipped("configs/models"):
        path = resources.resource(f"configs/models/{name}.yaml")
        hub = yaml.safe_load(path.read_text(encoding="utf-8"))["model"]["name"]
        if hub not in CATALOGUE:
            there = {"state": "from the model hub", "download": "", "licence": ""}
            rows.append({"model": hub, **there, "about": _comment(path)})
    _show(rows, as_json)


@app.command()
def defences(as_json: Json = False) -> None:
    """Defences of a KV cache, as `eval.defences` and `homeostat joint` name them.

    Example: homeostat list defences
    """
    from cachemedicpp.repair.registry import DEFENCES

    kinds = [(name, kind) for name, kind in DEFENCES.items() if kind.role != "variant"]
    _show([{"defence": name, "about": _line(kind.about)} for name, kind in kinds], as_json)


@app.command()
def rules(as_json: Json = False) -> None:
    """Rewriting rules that bring a program to its normal form, and why each keeps behaviour.

    Example: homeostat list rules
    """
    from skyt.repair.rules import RULES

    _show([{"rule": r.name, "needs": r.needs, "sound because": _line(r.sound)} for r in RULES], as_json)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="[RUNS_DIR]", help="The folder with your runs.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """Runs in a folder, newest first, with the reason where one failed.

    Example: homeostat list runs
    """
    from homeostat.core.errors import UserError
    from homeostat.viewer.runs import Runs

    if not folder.is_dir():
        raise UserError(
            f"no such folder: {folder}; runs are made by `homeostat demo`, `code run`, `cache run`"
        )
    found = Runs(folder.resolve())
    rows = [
        {
            "run": run["path"],
            "status": run["status"],
            "command": run["command"],
            "started": (run["started"] or "")[:19].replace("T", " "),
            "error": found.files(found.locate(run["path"])).record.get("error", ""),
        }
        for run in found.summaries()
    ]
    _show(rows, as_json)


def _show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not rows:
        print("nothing yet")
        return
    table = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    Console().print(table)


def _line(text: str) -> str:
    """The first sentence, on one line."""
    joined = " ".join(text.split())
    end = joined.find(". ")
    return joined if end < 0 else joined[: end + 1]


def _comment(path: Path) -> str:
    """What a file says about itself in its first comment."""
    words = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# yaml-language-server"):
            continue
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# "))
    return _line(" ".join(words))
