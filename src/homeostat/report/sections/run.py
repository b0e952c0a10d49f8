"""What was run, when, with what: the same for every run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import yaml

from homeostat.report.blocks import Block, facts, missing, section, text
from homeostat.report.reading import RunFiles, first


def run_section(files: RunFiles, status: str) -> Block:
    record, config = files.record, files.config
    env, git = record.get("env") or {}, record.get("git") or {}
    rows: list[tuple[str, Any]] = [
        ("command", record.get("command")),
        ("configuration", record.get("config_path") or "given on the command line"),
        ("configuration hash", record.get("config_hash")),
        ("status", status),
        ("started", moment(record.get("created_utc"))),
        ("finished", moment(record.get("finished_utc")) or "not recorded"),
        ("duration", duration(record)),
        ("seed", config.get("seed")),
        ("source", _commit(git)),
        ("versions", _versions(env)),
        ("platform", env.get("platform")),
        ("device", env.get("gpu_name") or "CPU"),
        ("run id", record.get("run_id")),
    ]
    shown = [(name, value) for name, value in rows if value not in (None, "")]
    settings = (
        text("Every setting of this run", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        if config
        else missing("config_resolved.yaml, the run's settings")
    )
    return section("run", "What was run", "", [facts(shown), settings])


def moment(stamp: Any) -> str | None:
    """`2026-11-15T20:00:00.123Z` as people read it."""
    if not isinstance(stamp, str) or len(stamp) < 19:
        return None
    return f"{stamp[:10]} {stamp[11:19]} UTC"


def seconds(record: dict[str, Any]) -> float | None:
    try:
        begun = datetime.fromisoformat(record["created_utc"])
        return (datetime.fromisoformat(record["finished_utc"]) - begun).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None


def duration(record: dict[str, Any]) -> str | None:
    taken = seconds(record)
    if taken is None:
        return None
    if taken < 100:
        return f"{taken:.1f} s"
    minutes, rest = divmod(round(taken), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def model_name(config: dict[str, Any]) -> str | None:
    """The model as configured, wherever this system's configuration says it."""
    for path in (("model", "name"), ("generator", "model", "name"), ("generator", "name"), ("model",)):
        found = first(config, *path)
        if isinstance(found, str):
            return found
    return None


def _commit(git: dict[str, Any]) -> str | None:
    commit = git.get("commit")
    return f"{str(commit)[:12]}{' with local changes' if git.get('dirty') else ''}" if commit else None


def _versions(env: dict[str, Any]) -> str:
    names = ("homeostat", "python", "torch", "transformers", "cuda")
    return ", ".join(f"{name} {env[name]}" for name in names if env.get(name))
