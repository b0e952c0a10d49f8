"""The OpenAPI description of what we answer ourselves: `assets/openapi.yaml`, with this program's version."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from homeostat import __version__

_DESCRIPTION = Path(__file__).parents[1] / "assets" / "openapi.yaml"


@cache
def description() -> dict[str, Any]:
    described: dict[str, Any] = yaml.safe_load(_DESCRIPTION.read_text(encoding="utf-8"))
    described["info"]["version"] = __version__
    return described
