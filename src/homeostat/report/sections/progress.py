"""What a run wrote to its logs: figures by step as curves, and the latest lines."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from homeostat.report import blocks
from homeostat.report.blocks import Block, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections.artifacts import slug

LOGS = "logs"  # the section's name
_POINTS = 400  # of one curve; beyond this every k-th step is shown
_CURVES = 12
_LAST_LINES = 12
_LINE = 800  # characters of one of them
_ALWAYS = {"run_id", "phase", "timestamp_utc", "step"}


def progress_section(files: RunFiles) -> Block | None:
    parts: list[Block] = []
    for path in files.files("logs", ".jsonl"):
        parts += _log(files, path.stem)
    return section(LOGS, "What happened", "From the run's logs, step by step.", parts) if parts else None


def _log(files: RunFiles, name: str) -> list[Block]:
    curves: dict[str, list[tuple[int, float]]] = {}
    labels: dict[str, set[str]] = {}
    last: deque[dict[str, Any]] = deque(maxlen=_LAST_LINES)
    for record in files.lines(f"logs/{name}.jsonl"):
        last.append(record)
        step = record.get("step")
        for key, value in record.items():
            if key not in _ALWAYS and isinstance(value, str) and len(labels.setdefault(key, set())) < 2:
                labels[key].add(value)
            if key not in _ALWAYS and isinstance(value, int | float) and not isinstance(value, bool):
                curves.setdefault(key, []).append((step if isinstance(step, int) else 0, float(value)))
    if not last:
        return []
    found: list[Block] = []
    moving = {key: points for key, points in curves.items() if len({y for _, y in points}) > 1}
    steps = max((len({x for x, _ in points}) for points in moving.values()), default=0)
    # Figures of a few events are no curve, nor are steps that differ in what was done: a task, a prompt.
    if steps > 2 and not any(len(values) > 1 for values in labels.values()):
        chosen = list(moving.items())[:_CURVES]
        panels = [
            blocks.panel(key, [blocks.series(key, _thinned(points))], y_label=key) for key, points in chosen
        ]
        note = _note(max(len(points) for _, points in chosen), len(moving))
        found.append(
            blocks.chart(f"log-{slug(name)}", f"Log: {name}", panels, x="step", y="value", note=note)
        )
    lines = "\n".join(_cut(json.dumps(record, ensure_ascii=False)) for record in last)
    found.append(blocks.text(f"Latest lines of logs/{name}.jsonl", lines))
    return found


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[:_LINE]}… ({len(line):,} characters)"


def _thinned(points: list[tuple[int, float]]) -> list[blocks.Point]:
    """Recorded points only: every k-th and the last."""
    stride = max(1, -(-len(points) // _POINTS))
    kept = points[::stride]
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return [(float(x), y, None, None) for x, y in kept]


def _note(longest: int, curves: int) -> str:
    notes = []
    if longest > _POINTS:
        notes.append(f"Every {-(-longest // _POINTS)}th of {longest:,} recorded steps is drawn.")
    if curves > _CURVES:
        notes.append(f"The first {_CURVES} of {curves} figures; the log has all.")
    return " ".join(notes)
