"""`schemas/config.schema.json`: what `config_resolved.yaml` of any run may hold, written from the code.

`schemas/files/*.schema.json` say what the YAML files may hold that people write; editors check and complete
them by the first line of each file in `configs/` (`# yaml-language-server: $schema=…`).

python -m homeostat.cli.schema      # write them again after a change to a configuration model
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from cachemedicpp.corruption import CORRUPTIONS
from cachemedicpp.engines.campaign.config import CampaignConfig
from cachemedicpp.repair.registry import DEFENCES
from cachemedicpp.runs.ood import Split
from cachemedicpp.sweep.run import SweepConfig
from cachemedicpp.tasks import TASKS
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core import atomic
from homeostat.core.registry import SHOWN
from homeostat.core.resources import resource
from homeostat.demo.config import DemoConfig
from homeostat.joint.config import JointConfig
from homeostat.report.names import REGISTERED
from skyt.contracts.contract import Contract
from skyt.runs.config import ReplayConfig, RunConfig, SuiteConfig, WrapConfig
from skyt.serve.database.transfer import ExportConfig

AnyConfig = (
    MedicConfig
    | RunConfig
    | SuiteConfig
    | ReplayConfig
    | WrapConfig
    | ExportConfig
    | JointConfig
    | CampaignConfig
    | DemoConfig
)

# Kinds of YAML files that people write, as their first line names them for editors.
FILES: dict[str, Any] = {
    "cache": MedicConfig,
    "cache_sweep": SweepConfig,
    "engine": CampaignConfig,
    "joint": JointConfig,
    "splits": dict[str, Split],
    "suite": SuiteConfig,
}


def config_schema() -> dict[str, Any]:
    """One of the configurations that a run directory can be made with."""
    found = TypeAdapter[Any](AnyConfig).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config",
        "description": "<RUN_DIR>/config_resolved.yaml: every setting of a run, whichever command made it.",
        **found,
    }


def file_schema(kind: str) -> dict[str, Any]:
    """What a YAML file of a kind may hold, for editors: every key may come from the file's `base:`."""
    found: dict[str, Any] = TypeAdapter[Any](FILES[kind]).json_schema()
    if "properties" in found:
        base = {"type": "string", "description": "a file whose settings this one overrides"}
        found["properties"] = {"base": base, **found["properties"]}
        found.pop("required", None)
    shared, own = config_schema()["$defs"], found.pop("$defs", {})
    found["$defs"] = {name: section for name, section in own.items() if shared.get(name) != section}
    found = _referring(found, {name for name in own if name not in found["$defs"]})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": kind}


def _referring(part: Any, shared: set[str]) -> Any:
    """The same schema, with the sections that `config.schema.json` describes taken from there."""
    if isinstance(part, dict):
        return {key: _referring(value, shared) for key, value in part.items()}
    if isinstance(part, list):
        return [_referring(value, shared) for value in part]
    if isinstance(part, str) and part.removeprefix("#/$defs/") in shared and part.startswith("#"):
        return f"../config.schema.json{part}"
    return part


def contract_schema() -> dict[str, Any]:
    """What a contract in YAML may hold."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "contract.schema.json",
        **Contract.model_json_schema(),
        "title": "A skyt contract",
    }


def registered() -> dict[str, Any]:
    """What pages call the corruption types, tasks and defences that come with the program."""
    for found in (CORRUPTIONS, TASKS, DEFENCES):
        len(found)  # every file of its folder was read
    return {name: SHOWN[name].as_record() for name in sorted(SHOWN)}


def main() -> None:
    atomic.write_json(REGISTERED, registered())
    folder = resource("schemas")
    atomic.write_json(folder / "contract.schema.json", contract_schema())
    atomic.write_json(folder / "config.schema.json", config_schema())
    for kind in FILES:
        atomic.write_json(folder / "files" / f"{kind}.schema.json", file_schema(kind))


if __name__ == "__main__":
    main()
