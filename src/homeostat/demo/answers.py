"""The output half of the demo: recorded answers of two models, judged and repaired without any model."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from homeostat.core.records import Record
from homeostat.core.resources import find
from homeostat.report import write_report
from skyt.metrics.table import show_metrics
from skyt.runs.config import MeasureConfig
from skyt.runs.measure import RunOptions
from skyt.runs.replay import replay


def replay_answers(recording: str, out: Path, console: Console) -> Record:
    """Replay the recording into `out` and show its table; the shares of canonical programs, for the page."""
    done = replay(find(recording), out, MeasureConfig(), RunOptions(figures=False))
    show_metrics(done.metrics, console)
    page = write_report(done.folder)
    console.print(f"Its page, for a browser: [bold]{escape(str(page))}[/bold]\n", soft_wrap=True)
    overall = done.metrics["skyt.overall"]
    return {"n": overall["N"], "before": overall["R_anchor_pre_measured"], "after": overall["R_anchor"]}
