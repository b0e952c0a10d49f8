"""From a run directory to the data of its page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from homeostat import __version__
from homeostat.report.blocks import Block
from homeostat.report.reading import RunFiles
from homeostat.report.sections import artifacts, cache, code
from homeostat.report.sections.progress import progress_section
from homeostat.report.sections.run import model_name, moment, run_section
from homeostat.report.sections.samples import pack_samples
from homeostat.report.status import run_status

SAMPLES = "samples-data"


@dataclass(frozen=True)
class Report:
    """What a page shows, and packed data by element id."""

    title: str
    data: dict[str, Any]
    parts: dict[str, str] = field(default_factory=dict)


def build(run_dir: str | Path, *, samples: bool = True, inside: Path | None = None) -> Report:
    """Read the run's records and lay them out. Missing parts are shown as missing."""
    files = RunFiles(run_dir, inside)
    status = run_status(files)
    parts: dict[str, str] = {}
    sections: list[Block] = []
    verdicts: list[str] = []
    if cache.is_cache(files):
        sections += cache.sections(files)
        verdicts += cache.verdicts(files)
    if code.is_code(files):
        if samples and (files.path / "samples.jsonl").exists():
            parts[SAMPLES] = pack_samples(files)
        sections += code.sections(files, SAMPLES)
        verdicts += code.verdicts(files)
    captions = {
        **(cache.CAPTIONS if cache.is_cache(files) else {}),
        **(code.CAPTIONS if code.is_code(files) else {}),
    }
    tables = cache.TABLES if cache.is_cache(files) else ()
    rest = [
        artifacts.other_section(files, {*cache.CLAIMS, *code.CLAIMS}),
        artifacts.figures_section(files, captions),
        artifacts.tables_section(files, tables),
        progress_section(files),
        run_section(files, status),
    ]
    sections += [part for part in rest if part is not None]
    if status != "complete":
        verdicts.append(f"This run is {status}: what follows is what is on record so far.")
    data = {
        "title": files.name,
        "eyebrow": _eyebrow(files),
        "status": status,
        "verdicts": verdicts,
        "problems": files.problems,
        "sections": sections,
        "footer": f"Made by homeostat {__version__} from the records of run {files.record.get('run_id')}. "
        "No model was run again for this page, and it loads nothing from anywhere.",
    }
    return Report(files.name, data, parts)


def key_figures(files: RunFiles) -> list[Block]:
    """The few figures a list of runs has room for."""
    found = cache.key_figures(files) if cache.is_cache(files) else []
    return found + (code.key_figures(files) if code.is_code(files) else [])


def sparkline(files: RunFiles) -> Block | None:
    """A handful of numbers that show a run at a glance: `label` and `values`."""
    return cache.sparkline(files) if cache.is_cache(files) else code.sparkline(files)


def systems(files: RunFiles) -> list[str]:
    """Which of the two systems left records in this run."""
    return [name for name, there in (("cache", cache.is_cache), ("code", code.is_code)) if there(files)]


def _eyebrow(files: RunFiles) -> str:
    config = files.config
    pieces = [
        "KV-cache run" if cache.is_cache(files) else "",
        "code run" if code.is_code(files) else "",
        model_name(config) or "",
        moment(files.record.get("created_utc")) or "",
    ]
    return " · ".join(piece for piece in pieces if piece)
