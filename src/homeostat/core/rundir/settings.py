"""Comparing the settings of a run on disk with those it is asked to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
import yaml

from homeostat.core.config import ConfigModel, resolved

SETTINGS = "config_resolved.yaml"
_SHOWN = 4  # differing settings that are named
_LONGEST = 40
_UNSET = object()

Difference = tuple[str, Any, Any]  # dotted setting, its value in the run, its value here


def differences(folder: Path, config: pydantic.BaseModel) -> list[Difference] | None:
    """The settings in which a run differs from `config`; None if the run's own cannot be read."""
    try:
        stored = yaml.safe_load((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    if not isinstance(stored, dict):
        return None
    there, here = dict(_flat(stored)), dict(_flat(resolved(config)))
    keys = [key for key in dict.fromkeys([*here, *there]) if there.get(key, _UNSET) != here.get(key, _UNSET)]
    return [(key, there.get(key, _UNSET), here.get(key, _UNSET)) for key in keys]


def grown_from(folder: Path, config: pydantic.BaseModel) -> bool:
    """Whether the run differs only in counts that may grow, and they did not shrink."""
    grows = config.grows if isinstance(config, ConfigModel) else ()
    found = differences(folder, config)
    return found is not None and all(
        key in grows and isinstance(there, int) and isinstance(here, int) and here > there
        for key, there, here in found
    )


def explain(folder: Path, config: pydantic.BaseModel) -> str:
    """The differing settings, named: `temperature is 0.7 there, 0.9 here`."""
    found = differences(folder, config)
    if found is None:
        return f"its {SETTINGS} cannot be read"
    known = config.told if isinstance(config, ConfigModel) else {}
    lines = [_line(difference, known) for difference in found[:_SHOWN]]
    more = len(found) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more else "")


def _line(difference: Difference, told: Mapping[str, str]) -> str:
    key, there, here = difference
    section, _, rest = key.partition(".")
    if section in told:
        return told[section].format(rest)
    return f"{key} is {_value(there)} there, {_value(here)} here"


def _value(value: Any) -> str:
    if value is _UNSET:
        return "not set"
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _flat(settings: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and value:
            found += _flat(value, f"{name}.")
        else:
            found.append((name, value))
    return found
