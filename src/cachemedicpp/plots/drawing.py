"""What the figures share: records, curves with intervals, plain numbers at ticks, empty pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cachemedicpp.plots.labels import label, look
from homeostat.core.errors import UserError
from homeostat.core.records import Record, read_record

_ASIDE = 1.6  # points between the curves of a panel


def read_metrics(run_dir: Path, name: str) -> Record:
    """One metrics file of a run. Without it there is nothing to draw, which is an error."""
    path = run_dir / "metrics" / f"{name}.json"
    if not path.exists():
        raise UserError(f"{path} does not exist: run the stage that measures it before drawing figures")
    metrics: Record = read_record(path, "metric_record")["metrics"]
    return metrics


def read_settings(run_dir: Path) -> Record:
    """The resolved configuration of a run."""
    path = run_dir / "config_resolved.yaml"
    try:
        found: Record = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{path} does not exist: {run_dir} is not a run directory") from None
    return found


def curve(
    axes: Any, points: Sequence[Record], x: str, name: str, size: float | None = None, text: str | None = None
) -> None:
    """A line with an interval at every point, or dots with intervals; what is not a number leaves a gap.

    Curves of one panel stand beside each other by a point or two, so that none hides another's intervals.
    """
    from matplotlib.transforms import ScaledTranslation

    kept = sorted((p for p in points if p["value"] is not None), key=lambda p: p[x])
    if not kept:
        return
    xs = [p[x] for p in kept]
    values = [p["value"] for p in kept]
    ends = [p["ci"] if None not in p["ci"] else (p["value"], p["value"]) for p in kept]
    down = [max(0.0, value - low) for value, (low, _) in zip(values, ends, strict=True)]
    up = [max(0.0, high - value) for value, (_, high) in zip(values, ends, strict=True)]
    extra: dict[str, Any] = {} if size is None else {"markersize": size, "linewidth": 1.2}
    if len(xs) <= 2:  # conditions, not a course: no line between them
        extra |= {"linestyle": "none", "capsize": 2}
    elif name in ("none", "baseline"):
        extra |= {"linestyle": "--"}
    before = len(axes.containers)
    aside = (before + 1) // 2 * (1 if before % 2 else -1) * _ASIDE
    where = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    axes.errorbar(
        xs,
        values,
        [down, up],
        label=text or label(name),
        elinewidth=0.9,
        transform=where,
        **{**look(name), **extra},
    )
    # what is shifted counts for the limits of the axes as if it were not
    lows = [(at, value - less) for at, value, less in zip(xs, values, down, strict=True)]
    axes.update_datalim(
        [*lows, *((at, value + more) for at, value, more in zip(xs, values, up, strict=True))]
    )
    axes.autoscale_view()


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


def name_points(axes: Any, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Names `(x, y, name, colour)` in a column beside the axes, in the points' order from top to bottom, each
    joined to its point by a thin line."""
    ordered = sorted(points, key=lambda point: (-point[1], -point[0]))
    step = 1.0 / max(1, len(ordered) - 1)
    for place, (x, y, name, colour) in enumerate(ordered):
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(1.06, 1.0 - place * step),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.4,
                "alpha": 0.6,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )
