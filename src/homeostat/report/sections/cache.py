"""Runs of cachemedicpp: robustness, stability and overhead of repaired KV caches."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.report.blocks import Block
from homeostat.report.reading import RunFiles

CLAIMS = ("task_metrics", "stability_metrics")
CAPTIONS: dict[str, str] = {}
TABLES: tuple[str, ...] = ()


def is_cache(files: RunFiles) -> bool:
    return False


def sections(files: RunFiles) -> Iterator[Block]:
    return iter(())


def verdicts(files: RunFiles) -> Iterator[str]:
    return iter(())


def key_figures(files: RunFiles) -> list[Block]:
    return []


def sparkline(files: RunFiles) -> Block | None:
    return None
