"""From a run directory to the data of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from homeostat import __version__
from homeostat.report.blocks import Block, prose, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections import artifacts, cache, code, demo, engine, joint
from homeostat.report.sections.progress import LOGS, progress_section
from homeostat.report.sections.run import model_name, moment, run_section
from homeostat.report.sections.samples import ELEMENT, SAMPLES, pack_samples
from homeostat.report.sections.system import System
from homeostat.report.status import failure, run_status

T = TypeVar("T")

# A run may have records of several; the first one here is what it is about.
SYSTEMS = (demo.SYSTEM, joint.SYSTEM, engine.SYSTEM, cache.SYSTEM, code.SYSTEM)


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
    present = systems(files)
    sections = [b for system in present for part in system.sections for b in _read(files, system, part.of)]
    sections += _common(files, present, status)
    if status == "running":
        sections = _so_far(sections)
    verdicts = _read(files, present[0], present[0].verdicts) if present else []
    if status not in ("complete", "failed"):
        verdicts.append(f"This run is {status}: what follows is what is on record so far.")
    with_samples = samples and (files.path / SAMPLES).exists()
    parts = {ELEMENT: pack_samples(files)} if with_samples else {}
    data = {
        "title": files.name,
        "eyebrow": _eyebrow(files, present),
        "status": status,
        "error": failure(files),
        "verdicts": verdicts,
        "problems": files.problems,
        "sections": sections,
        "footer": f"Made by homeostat {__version__} from the records of run {files.record.get('run_id')}. "
        "No model was run again for this page, and it loads nothing from anywhere.",
    }
    return Report(files.name, data, parts)


def _so_far(sections: list[Block]) -> list[Block]:
    """A run that is going on: what happened first, then what there is; what is still to come in one line."""
    empty = [s for s in sections if all(block["kind"] == "missing" for block in s["blocks"])]
    there = sorted((s for s in sections if s not in empty), key=lambda s: s["id"] != LOGS)
    names = ", ".join(part["title"] for part in empty)
    if names:
        there.append(section("to-come", "Still to come", "", [prose(f"{names}.")]))
    return there


def systems(files: RunFiles) -> list[System]:
    """The systems that left records in this run."""
    return [system for system in SYSTEMS if system.is_here(files)]


def key_figures(files: RunFiles) -> list[Block]:
    """The figures a list of runs and a comparison show, the most telling first."""
    return [figure for system in systems(files) for figure in _read(files, system, system.key_figures)]


def sparkline(files: RunFiles) -> Block | None:
    """A handful of numbers that show a run at a glance: `label` and `values`."""
    for system in systems(files):
        for found in _read(files, system, partial(_sparkline, system)):
            if len(found["values"]) > 1:
                return found
    return None


def _sparkline(system: System, files: RunFiles) -> list[Block]:
    found = system.sparkline(files)
    return [] if found is None else [found]


def _read(files: RunFiles, system: System, part: Callable[[RunFiles], Iterable[T]]) -> list[T]:
    """A part of a page. Metrics in a shape that cannot be shown become a problem, and the rest goes on."""
    found: list[T] = []
    try:
        found.extend(part(files))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        files.problem(f"metrics of the {system.title}", f"cannot be shown ({type(error).__name__}: {error})")
    return found


def _common(files: RunFiles, present: list[System], status: str) -> list[Block]:
    """What any run has: figures and tables, other metrics, logs, and what was run."""
    captions = {name: title for system in present for name, title in system.captions.items()}
    expected = present[0].captions if present else ()
    claimed = {claim for system in SYSTEMS for claim in system.claims}
    found = [
        artifacts.other_section(files, claimed, alone=not present),
        artifacts.figures_section(files, captions, expected),
        artifacts.tables_section(files, present[0].tables if present else ()),
        progress_section(files),
        run_section(files, status),
    ]
    return [part for part in found if part is not None]


def _eyebrow(files: RunFiles, present: list[System]) -> str:
    titles = [system.title for system in present[:1]]
    pieces = [*titles, model_name(files.config), moment(files.record.get("created_utc"))]
    return " · ".join(piece for piece in pieces if piece)
