"""A contract as files: YAML that people read, and its inputs beside it as JSON, which is read much faster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic
import yaml

from homeostat.core import atomic
from skyt.contracts.contract import Contract


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _plain(part: Any) -> Any:
    """Specs without what they have by default, but always with their type."""
    if isinstance(part, pydantic.BaseModel):
        fields = type(part).model_fields
        values = {name: getattr(part, name) for name in fields}
        return {
            name: _plain(value)
            for name, value in values.items()
            if name == "type" or value != fields[name].get_default(call_default_factory=True)
        }
    if isinstance(part, dict):
        return {name: _plain(value) for name, value in part.items()}
    return [_plain(item) for item in part] if isinstance(part, list | tuple) else part


def as_yaml(contract: Contract) -> str:
    """The contract as a YAML file would have it, without what is so by default."""
    return _yaml(_raw(contract))


def _raw(contract: Contract) -> dict[str, Any]:
    raw: dict[str, Any] = contract.model_dump(mode="json", exclude_defaults=True)
    raw["domain"] = {**raw.get("domain", {}), "parameters": _plain(contract.domain.parameters)}
    if contract.domain.methods:
        raw["domain"]["methods"] = _plain(contract.domain.methods)
    return raw


def _yaml(raw: dict[str, Any]) -> str:
    return yaml.dump(raw, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def write_contract(contract: Contract, folder: Path) -> Path:
    """Write `ID.yaml` and, where there are inputs, `ID.inputs.json`; returns the first."""
    raw = _raw(contract)
    inputs = raw.get("oracle", {}).get("inputs", [])
    if inputs and all(set(row) <= {"args"} for row in inputs):
        name = f"{contract.id}.inputs.json"
        rows = ",\n".join(json.dumps(row.get("args", []), ensure_ascii=False) for row in inputs)
        atomic.write_text(folder / name, f"[\n{rows}\n]\n")
        raw["oracle"]["inputs"] = name
    path = folder / f"{contract.id}.yaml"
    atomic.write_text(path, _yaml(raw))
    return path
