"""The report: one self-contained HTML file that shows a run from its records alone.

Hands out `build`, `write_report` and `write_figures`. Uses the core only: it reads records and runs nothing.
"""

from __future__ import annotations

from pathlib import Path

from homeostat.core import atomic
from homeostat.report.build import Report, build
from homeostat.report.export import write_figures
from homeostat.report.page import render

__all__ = ["Report", "build", "write_figures", "write_report"]


def write_report(run_dir: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a run, by default to `<RUN_DIR>/report.html`, and return its path."""
    report = build(run_dir)
    target = Path(out) if out is not None else Path(run_dir) / "report.html"
    atomic.write_text(target, render(report.title, report.data, report.parts))
    return target
