"""The schemas say what the code writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from homeostat.cli.schema import config_schema
from homeostat.core.config import resolved
from homeostat.core.records import RecordError, validate
from homeostat.core.resources import resource
from homeostat.demo.config import DemoConfig


def test_the_config_schema_is_the_one_of_the_code() -> None:
    stored = json.loads(resource("schemas/config.schema.json").read_text(encoding="utf-8"))
    assert stored == config_schema(), "run `python -m homeostat.cli.schema` to write it again"


@pytest.mark.parametrize("path", sorted(resource("schemas").glob("*.json")), ids=lambda p: p.stem)
def test_every_schema_is_a_valid_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


def test_a_resolved_configuration_fits_and_one_with_a_stray_key_does_not() -> None:
    settings = resolved(DemoConfig())
    validate(settings, "config")
    with pytest.raises(RecordError):
        validate({**settings, "stray": 1}, "config")
