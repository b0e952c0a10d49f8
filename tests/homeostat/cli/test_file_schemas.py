"""Editors check YAML files by the schema that their first line names; the program agrees with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
import yaml

from homeostat.cli.schema import FILES, file_schema
from homeostat.core.config import ConfigModel, fits
from homeostat.core.resources import resource, resource_root

LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
FOUND = sorted([*resource("configs").rglob("*.yaml"), *resource("contracts").rglob("*.yaml")])
MODELS = [kind for kind in FILES.values() if isinstance(kind, type) and issubclass(kind, ConfigModel)]


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """With the sections that files share, as an editor finds them beside the schema."""
    shared = json.loads(resource("schemas/config.schema.json").read_text(encoding="utf-8"))
    registry = referencing.Registry().with_resource(
        "../config.schema.json", referencing.Resource.from_contents(shared)
    )
    return jsonschema.Draft202012Validator(schema, registry=registry)


def name(path: Path) -> str:
    return path.relative_to(resource_root()).as_posix()


@pytest.mark.parametrize("kind", FILES)
def test_the_stored_schema_is_the_one_of_the_code(kind: str) -> None:
    stored = json.loads(resource(f"schemas/files/{kind}.schema.json").read_text(encoding="utf-8"))
    assert stored == file_schema(kind), "run `python -m homeostat.cli.schema` to write it again"
    jsonschema.Draft202012Validator.check_schema(stored)


@pytest.mark.parametrize("path", FOUND, ids=name)
def test_a_file_fits_the_schema_it_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = LINE.match(text)
    if named is None:
        assert "contracts" not in path.parts and not any(fits(model, path) for model in MODELS)
        return
    schema = (path.parent / named.group(1)).resolve()
    assert schema.is_relative_to(resource_root()) and schema.is_file()
    validator(json.loads(schema.read_text(encoding="utf-8"))).validate(yaml.safe_load(text))


def test_a_misspelt_key_is_found_by_the_schema() -> None:
    cache = validator(file_schema("cache"))
    assert list(cache.iter_errors({"base": "smoke.yaml", "trian": {"lr": 1}}))
    assert list(cache.iter_errors({"base": "smoke.yaml", "train": {"lrr": 1}}))
    assert not list(cache.iter_errors({"base": "smoke.yaml", "train": {"lr": 1e-3}}))
