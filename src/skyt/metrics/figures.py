"""The figures of a run, drawn from its records: overlay, violins, and paired bars with their intervals."""

from __future__ import annotations

from array import array
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from homeostat.core.figures import PALETTE, save, style
from skyt import records
from skyt.metrics.summary import read_metrics
from skyt.records.tables import samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRE, POST = PALETTE[1], PALETTE[0]
_BINS = 40
_SHOWN = 20_000  # distances a violin is drawn from; more change nothing that can be seen
Distances = dict[str, NDArray[np.float64]]


def draw_all(run_dir: Path, figures: Path) -> list[Path]:
    """Draw every figure of a run that has metrics; returns the files."""
    metrics = read_metrics(run_dir)
    pre, post = read_distances(run_dir)
    written = []
    with style():
        written += save(_overlay(pre, post, metrics), figures / "pre_vs_post_overlay.png")
        written += save(_violins(pre, "before repair", PRE), figures / "violin_pre.png")
        written += save(_violins(post, "after repair", POST), figures / "violin_post.png")
        written += save(_paired_bars(metrics, "R_anchor"), figures / "paired_r_anchor.png")
        written += save(_paired_bars(metrics, "P_tau"), figures / "paired_p_tau.png")
    return written


def read_distances(run_dir: Path) -> tuple[Distances, Distances]:
    """Distances before and after repair by prompt, in the order of the samples."""
    found: dict[str, array[float]] = defaultdict(lambda: array("d"))
    query = select(samples.c.prompt_id, samples.c.d_pre, samples.c.d_post).order_by(samples.c.number)
    with records.RunStore.existing(run_dir) as store, store.reading() as connection:
        for prompt, *distances in connection.execution_options(yield_per=10_000).execute(query):
            found[prompt].extend(distances)
    pairs = {name: np.frombuffer(values, dtype=np.float64).reshape(-1, 2) for name, values in found.items()}
    return {name: pair[:, 0] for name, pair in pairs.items()}, {name: p[:, 1] for name, p in pairs.items()}


def _overlay(pre: Distances, post: Distances, metrics: dict[str, Any]) -> Any:
    """Share of samples by distance, before and after repair, one panel per prompt."""
    from matplotlib import pyplot

    names = list(pre)
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(max(3.6, 2.5 * columns), 1.9 * rows + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    figures = {row["prompt_id"]: row for row in metrics["skyt.prompts"]}
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    for axis, name in zip(axes.flat, names, strict=False):
        for values, colour, label in ((pre[name], PRE, "before repair"), (post[name], POST, "after repair")):
            weights = np.full(values.size, 1.0 / values.size)
            axis.hist(values, edges, weights=weights, color=colour, alpha=0.22, label=label)
            axis.hist(values, edges, weights=weights, color=colour, histtype="step", linewidth=1.3)
        tau = figures[name]["tau"]
        axis.axvline(tau, color="#444444", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name} (N = {values.size})")
    for axis in list(axes.flat)[len(names) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("distance $d$ to the canon")
    for axis in axes[:, 0]:
        axis.set_ylabel("share of samples")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def _violins(distances: Distances, when: str, colour: str) -> Any:
    """The distribution of distances for each prompt; the dot is the mean, the bar the median."""
    from matplotlib import pyplot

    names = list(distances)
    figure, axis = pyplot.subplots(figsize=(max(3.6, 0.95 * len(names) + 1.2), 3.4))
    for at, name in enumerate(names):
        values = distances[name]
        step = max(1, values.size // _SHOWN)
        _violin(axis, values[::step], at, colour)
        axis.plot(
            at, values.mean(), "o", color="black", markersize=4, zorder=3, label="mean" if at == 0 else None
        )
        median = float(np.median(values))
        axis.plot(
            [at - 0.14, at + 0.14],
            [median, median],
            color="black",
            label="median" if at == 0 else None,
            zorder=3,
        )
    axis.set_xticks(range(len(names)), [f"{name}\nN = {distances[name].size}" for name in names], fontsize=8)
    if len(names) > 3:
        pyplot.setp(axis.get_xticklabels(), rotation=30, ha="right", rotation_mode="anchor")
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel("distance $d$ to the canon")
    axis.set_title(when)
    axis.grid(axis="x", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _violin(axis: Axes, values: NDArray[np.float64], at: int, colour: str) -> None:
    """A violin that stays within [0, 1]; distances that are all the same are a line, which no density is."""
    if np.ptp(values) < 1e-9:
        axis.plot(
            [at - 0.3, at + 0.3], [values[0], values[0]], color=colour, linewidth=3, solid_capstyle="round"
        )
        return
    from scipy.stats import gaussian_kde

    grid = np.linspace(max(0.0, values.min() - 0.06), min(1.0, values.max() + 0.06), 300)
    density = gaussian_kde(values, bw_method=0.15)(grid)
    width = 0.4 * density / density.max()
    axis.fill_betweenx(grid, at - width, at + width, color=colour, alpha=0.35, linewidth=0)
    axis.plot(at - width, grid, color=colour, linewidth=0.9)
    axis.plot(at + width, grid, color=colour, linewidth=0.9)


_BARS = {
    "R_anchor": ("R_anchor_pre_measured", "R_anchor", "$R_{anchor}$ (before: as measured)"),
    "P_tau": ("P_tau_pre", "P_tau_post", "$P_\\tau$"),
}


def _paired_bars(metrics: dict[str, Any], which: str) -> Any:
    """Before and after as paired bars with 95 % Wilson intervals; the difference stands above each pair."""
    from matplotlib import pyplot

    before, after, title = _BARS[which]
    groups = [(row["prompt_id"], row) for row in metrics["skyt.prompts"] if row["N"]]
    if len(groups) > 1:
        groups.append(("overall", metrics["skyt.overall"]))
    figure, axis = pyplot.subplots(figsize=(max(3.8, 1.05 * len(groups) + 1.4), 3.4))
    for at, (_, row) in enumerate(groups):
        tops = []
        for offset, key, colour, label in (
            (-0.2, before, PRE, "before repair"),
            (0.2, after, POST, "after repair"),
        ):
            interval = row["intervals"][key]
            reach = [[row[key] - interval["low"]], [interval["high"] - row[key]]]
            axis.bar(at + offset, row[key], 0.38, color=colour, alpha=0.85, label=label if at == 0 else None)
            axis.errorbar(
                at + offset, row[key], np.clip(reach, 0, None), color="black", linewidth=0.9, capsize=2
            )
            tops.append(interval["high"])
        gain = row[after] - row[before]
        axis.text(at, max(tops) + 0.02, f"{gain:+.3f}", ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(groups)), [f"{name}\nN = {row['N']}" for name, row in groups], fontsize=8)
    if len(groups) > 3:
        pyplot.setp(axis.get_xticklabels(), rotation=30, ha="right", rotation_mode="anchor")
    tau = metrics["skyt.overall"]["tau"]
    axis.set_ylabel(title if which == "R_anchor" else f"{title} ($\\tau$ = {tau:g})", fontsize=9)
    axis.set_ylim(0, 1.12)
    axis.set_yticks(np.linspace(0, 1, 6))
    axis.grid(axis="x", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure
