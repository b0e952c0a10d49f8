"""The four figures of the protocol, drawn from the records of a run and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from cachemedicpp.plots.around import amplification_map, logit_sensitivity, with_lambda0
from cachemedicpp.plots.drawing import curve, name_points, not_measured, plain, read_metrics, read_settings
from cachemedicpp.plots.labels import headline, label, look
from homeostat.core.errors import UserError
from homeostat.core.figures import save, style
from homeostat.core.records import Record

FIGURES = (
    "figA_score_vs_eps",
    "figB_clean_vs_overhead_pareto",
    "figC_logit_sensitivity",
    "figD_amplification_map",
)


def render(run_dir: Path) -> list[Path]:
    """Draw the figures of a run (PNG and PDF) into `paper/figures`.

    The figure of what the configuration switched off says so. What it asked for but is missing is an error.
    """
    tasks = read_metrics(run_dir, "task_metrics")
    settings = read_settings(run_dir)
    overhead, around = settings["eval"]["measure_overhead"], settings["stability"]["enabled"]
    stability = with_lambda0(read_metrics(run_dir, "stability_metrics"), run_dir) if around else {}
    off, unpriced = "stability.enabled: false", "eval.measure_overhead: false"
    with style():
        drawn = (
            score_vs_eps(tasks),
            clean_vs_overhead(tasks) if overhead else not_measured("Overhead", unpriced),
            logit_sensitivity(stability) if around else not_measured("Logit sensitivity", off),
            amplification_map(stability) if around else not_measured("Amplification", off),
        )
        target = run_dir / "paper" / "figures"
        return [path for name, one in zip(FIGURES, drawn, strict=True) for path in save(one, target / name)]


def score_vs_eps(metrics: Record) -> Any:
    """Figure A: robustness score against epsilon, over all types and for each of them."""
    from matplotlib import pyplot

    curves, by_type = metrics["robustness.score"], metrics["robustness.by_type"]
    defences = headline(list(dict.fromkeys(entry["defence"] for entry in curves)))
    types = list(dict.fromkeys(entry["type"] for entry in by_type))
    small = types if len(types) > 1 else []  # one type, as where one is held out: the large panel has it
    columns = -(-len(small) // 2)
    figure = pyplot.figure(figsize=(11.0 if small else 7.6, 4.6))
    grid = figure.add_gridspec(2, 2 + columns, width_ratios=[1.0, 1.0, *[0.85] * columns])
    main = figure.add_subplot(grid[:, :2])
    for name in defences:
        curve(main, [e for e in curves if e["defence"] == name], "epsilon", name)
    title = "all types" if small else label(types[0])
    main.set(xlabel="corruption severity ε", ylabel="robustness score", title=title)
    smallest = min((e["epsilon"] for e in curves if e["epsilon"] > 0), default=0.1)
    ticks = sorted({e["epsilon"] for e in curves})
    main.set_xscale("symlog", linthresh=smallest)
    main.set_xlim(-0.35 * smallest, 1.25 * max(ticks[-1], smallest))
    main.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    main.minorticks_off()
    highest = max((e["ci"][1] or e["value"] or 0.0) for e in (*curves, *by_type))
    main.set_ylim(-0.05 * highest, 1.06 * highest)  # no curve runs along the frame
    for place, kind in enumerate(small):
        axes = figure.add_subplot(grid[place // columns, 2 + place % columns], sharex=main, sharey=main)
        for name in defences:
            points = [e for e in by_type if e["defence"] == name and e["type"] == kind]
            curve(axes, points, "epsilon", name, size=3)
        axes.set_title(label(kind), fontsize=9)
        axes.tick_params(labelsize=7, labelleft=place % columns == 0)
    if len(small) % 2:  # the legend takes the place that is left
        rest = figure.add_subplot(grid[1, -1])
        rest.set_axis_off()
        rest.legend(*main.get_legend_handles_labels(), loc="center", fontsize=8)
    elif small:
        main.legend(loc="best")
    else:
        main.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def clean_vs_overhead(metrics: Record) -> Any:
    """Figure B: what a defence costs where nothing is wrong, in quality and in throughput."""
    from matplotlib import pyplot

    regression = {entry["defence"]: entry for entry in metrics["clean_regression"]}
    overhead = {entry["defence"]: entry for entry in metrics.get("overhead", [])}
    shared = [name for name in regression if name in overhead and not name.endswith(":oracle")]
    if not shared:
        raise UserError("no overhead in the task metrics: set eval.measure_overhead: true and evaluate again")
    figure, axes = pyplot.subplots(figsize=(7.4, 4.6))
    points, named = [], []
    for name in [*headline(shared), *(n for n in shared if n not in headline(shared))]:
        cost, scale = _clean_cost(regression[name])
        x, y = overhead[name]["relative_throughput"], cost["value"] * scale
        low, high = (bound * scale for bound in cost["ci"])
        left, right = overhead[name].get("relative_throughput_ci", (x, x))
        axes.errorbar(
            x,
            y,
            xerr=[[max(0.0, x - left)], [max(0.0, right - x)]],
            yerr=[[max(0.0, y - low)], [max(0.0, high - y)]],
            linestyle="none",
            elinewidth=0.6,
            **{"markersize": 7, **look(name)},
        )
        points.append((x, y))
        named.append((x, y, label(name), look(name)["color"]))
    front = _pareto(points)
    axes.plot(*zip(*front, strict=True), color="#444444", linestyle="--", linewidth=1.2, zorder=1)
    axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    axes.set_xlabel("throughput relative to no defence (right is cheaper)")
    is_ppl = "wikitext2.ppl_relative" in regression[shared[0]]["tasks"]
    axes.set_ylabel("clean perplexity added, %" if is_ppl else "robustness score lost at ε = 0")
    if is_ppl:
        axes.set_yscale("symlog", linthresh=1.0)
        plain(axes.yaxis)
    axes.margins(x=0.08, y=0.08)
    name_points(axes, named)
    return figure


def _clean_cost(entry: Record) -> tuple[Record, float]:
    """The cost of a defence on clean input and its unit: perplexity in percent, else the score."""
    relative = entry["tasks"].get("wikitext2.ppl_relative")
    return (entry, 1.0) if relative is None else (relative, 100.0)


def _pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the line below and left of which no defence lies: more throughput, less lost."""
    front = sorted(
        {(x, y) for x, y in points if not any((a >= x and b <= y) and (a > x or b < y) for a, b in points)}
    )
    corners = [(min(x for x, _ in points), front[0][1]), front[0]]
    for (x, _), (a, b) in pairwise(front):  # faster costs more: up where it begins to, then to the right
        corners += [(x, b), (a, b)]
    return [*corners, (front[-1][0], max(y for _, y in points))]
