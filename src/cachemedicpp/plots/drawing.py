"""What the figures share: records, curves with intervals, plain numbers at ticks, empty pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cachemedicpp.plots.labels import label, look
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record


def read_metrics(run_dir: Path, name: str) -> Record:
    """One metrics file of a run. Without it there is nothing to draw, which is an error."""
    path = run_dir / "metrics" / f"{name}.json"
    if not path.exists():
        raise UserError(f"{path} does not exist: run the stage that measures it before drawing figures")
    metrics: Record = read_record(path, "metric_record")["metrics"]
    return metrics


def curve(
    axes: Any, points: Sequence[Record], x: str, name: str, size: float | None = None, text: str | None = None
) -> None:
    """A line with its confidence band, or dots with intervals; values that are not numbers leave a gap."""
    kept = sorted((p for p in points if p["value"] is not None), key=lambda p: p[x])
    if not kept:
        return
    xs = [p[x] for p in kept]
    extra: dict[str, Any] = {} if size is None else {"markersize": size, "linewidth": 1.2}
    style_ = look(name)
    if len(xs) <= 2:  # conditions, not a course: dots with intervals, and no line between them
        values = [p["value"] for p in kept]
        ends = [p["ci"] if None not in p["ci"] else (p["value"], p["value"]) for p in kept]
        down = [max(0.0, value - low) for value, (low, _) in zip(values, ends, strict=True)]
        up = [max(0.0, high - value) for value, (_, high) in zip(values, ends, strict=True)]
        axes.errorbar(
            xs, values, [down, up], linestyle="none", capsize=2, label=text or label(name), **style_
        )
        return
    if name in ("none", "baseline"):  # the reference stays visible under curves that lie on it
        extra |= {"linestyle": "--", "zorder": 3}
    axes.plot(xs, [p["value"] for p in kept], label=text or label(name), **style_, **extra)
    bounded = [p for p in kept if None not in p["ci"]]
    axes.fill_between(
        [p[x] for p in bounded],
        [p["ci"][0] for p in bounded],
        [p["ci"][1] for p in bounded],
        color=style_["color"],
        alpha=0.15,
        linewidth=0,
    )


def plain(axis: Any) -> None:
    """Numbers as people write them at the ticks of a logarithmic axis: 0.01, 1, 100."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def not_measured(what: str, setting: str) -> Any:
    """The page of a figure whose part of the run was switched off, which says so."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 2.4))
    axes.set_axis_off()
    text = f"{what}: not measured in this run.\nThe configuration has {setting}."
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=11, linespacing=1.8)
    return figure
