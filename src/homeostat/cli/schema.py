"""`schemas/config.schema.json`: what `config_resolved.yaml` of any run may hold, written from the code.

python -m homeostat.cli.schema      # write it again after a change to a configuration model
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from cachemedicpp.engines.campaign.config import CampaignConfig
from cachemedicpp.runs.config import MedicConfig
from homeostat.core import atomic
from homeostat.core.resources import resource
from homeostat.demo.config import DemoConfig
from homeostat.joint.config import JointConfig
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


def config_schema() -> dict[str, Any]:
    """One of the configurations that a run directory can be made with."""
    found = TypeAdapter[Any](AnyConfig).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config",
        "description": "<RUN_DIR>/config_resolved.yaml: every setting of a run, whichever command made it.",
        **found,
    }


def main() -> None:
    atomic.write_json(resource("schemas") / "config.schema.json", config_schema())


if __name__ == "__main__":
    main()
