"""The four figures of the protocol, drawn from the records of a run and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from cachemedicpp.plots.labels import headline, label, look
from homeostat.core.errors import UserError
from homeostat.core.figures import DIVERGING, SEQUENTIAL, save, style
from homeostat.core.records import Record, read_record

FIGURES = (
    "figA_score_vs_eps",
    "figB_clean_vs_overhead_pareto",
    "figC_logit_sensitivity",
    "figD_amplification_map",
)


def read_metrics(run_dir: Path, name: str) -> Record:
    """One metrics file of a run. Without it there is nothing to draw, which is an error."""
    path = run_dir / "metrics" / f"{name}.json"
    if not path.exists():
        raise UserError(f"{path} does not exist: run the stage that measures it before drawing figures")
    metrics: Record = read_record(path, "metric_record")["metrics"]
    return metrics


def render(run_dir: Path) -> list[Path]:
    """Draw the figures of a run (PNG and PDF) into `paper/figures`.

    What the configuration switched off has no figure. What it asked for but is missing is an error.
    """
    tasks = read_metrics(run_dir, "task_metrics")
    overhead, around = _asked_for(run_dir)
    stability = with_lambda0(read_metrics(run_dir, "stability_metrics"), run_dir) if around else {}
    target = run_dir / "paper" / "figures"
    written: list[Path] = []
    with style():
        written += save(score_vs_eps(tasks), target / FIGURES[0])
        if overhead:
            written += save(clean_vs_overhead(tasks), target / FIGURES[1])
        if around:
            written += save(logit_sensitivity(stability), target / FIGURES[2])
            written += save(amplification_map(stability), target / FIGURES[3])
    return written


def _asked_for(run_dir: Path) -> tuple[bool, bool]:
    """Whether the run was to measure overhead, and stability."""
    path = run_dir / "config_resolved.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    overhead = settings.get("eval", {}).get("measure_overhead", True)
    return bool(overhead), bool(settings.get("stability", {}).get("enabled", True))


def with_lambda0(metrics: Record, run_dir: Path) -> Record:
    """The sensitivity points with one more curve, where a sweep has the same run with lambda_contr = 0."""
    other = lambda0_run(run_dir)
    if other is None:
        return metrics
    twin = {
        p["delta_norm"]: p for p in read_metrics(other, "stability_metrics")["stability.logit_sensitivity"]
    }
    points = []
    for point in metrics["stability.logit_sensitivity"]:
        same = twin.get(point["delta_norm"])
        if same is None:
            return metrics
        value = {**point["value"], "lambda_contr_0": same["value"]["cachemedic"]}
        ci = {**point["ci"], "lambda_contr_0": same["ci"]["cachemedic"]}
        points.append({**point, "value": value, "ci": ci})
    return {**metrics, "stability.logit_sensitivity": points}


def lambda0_run(run_dir: Path) -> Path | None:
    """The finished run of the same sweep and seed whose only difference is lambda_contr = 0."""
    sweep = run_dir.resolve().parent.parent / "sweep.json"
    if not sweep.exists():
        return None
    record = read_record(sweep, "sweep")
    own = next((r for r in record["runs"] if sweep.parent / r["folder"] == run_dir.resolve()), None)
    if own is None:
        return None
    setting = "train.lambda_contr="
    rest = {o for o in own["overrides"] if not o.startswith(setting)}
    for run in record["runs"]:
        zero = [float(o.removeprefix(setting)) == 0 for o in run["overrides"] if o.startswith(setting)]
        same = {o for o in run["overrides"] if not o.startswith(setting)} == rest
        if run["ok"] and same and zero == [True] and run is not own:
            return sweep.parent / str(run["folder"])
    return None


def score_vs_eps(metrics: Record) -> Any:
    """Figure A: robustness score against epsilon, over all types and for each of them."""
    from matplotlib import pyplot

    curves, by_type = metrics["robustness.score"], metrics["robustness.by_type"]
    defences = headline(_names(curves))
    types = list(dict.fromkeys(entry["type"] for entry in by_type))
    figure = pyplot.figure(figsize=(11.0, 4.6))
    columns = max(1, -(-len(types) // 2))
    grid = figure.add_gridspec(2, 2 + columns, width_ratios=[1.0, 1.0, *[0.85] * columns])
    main = figure.add_subplot(grid[:, :2])
    for name in defences:
        _curve(main, [e for e in curves if e["defence"] == name], "epsilon", name)
    main.set(xlabel="corruption severity ε", ylabel="robustness score", title="all types")
    main.set_ylim(bottom=0)
    main.legend(loc="best")
    for place, kind in enumerate(types):
        axes = figure.add_subplot(grid[place // columns, 2 + place % columns], sharex=main, sharey=main)
        for name in defences:
            points = [e for e in by_type if e["defence"] == name and e["type"] == kind]
            _curve(axes, points, "epsilon", name, size=3)
        axes.set_title(kind.replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=8, labelleft=place % columns == 0)
    smallest = min((e["epsilon"] for e in curves if e["epsilon"] > 0), default=0.1)
    ticks = sorted({e["epsilon"] for e in curves})
    main.set_xscale("symlog", linthresh=smallest)
    main.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    main.minorticks_off()
    return figure


def clean_vs_overhead(metrics: Record) -> Any:
    """Figure B: what a defence costs where nothing is wrong, in quality and in throughput."""
    from matplotlib import pyplot

    regression = {entry["defence"]: entry for entry in metrics["clean_regression"]}
    overhead = {entry["defence"]: entry for entry in metrics.get("overhead", [])}
    shared = [name for name in regression if name in overhead and not name.endswith(":oracle")]
    if not shared:
        raise UserError("no overhead in the task metrics: set eval.measure_overhead: true and evaluate again")
    figure, axes = pyplot.subplots(figsize=(6.8, 4.2))
    points = []
    for name in [*headline(shared), *(n for n in shared if n not in headline(shared))]:
        cost, scale = _clean_cost(regression[name])
        x, y = overhead[name]["relative_throughput"], cost["value"] * scale
        low, high = (bound * scale for bound in cost["ci"])
        bars = [[max(0.0, y - low)], [max(0.0, high - y)]]
        axes.errorbar(x, y, yerr=bars, linestyle="none", capsize=2, label=label(name), **look(name))
        points.append((x, y))
    front = _pareto(points)
    if len(front) > 1:
        axes.plot(*zip(*front, strict=True), color="#999999", linestyle="--", linewidth=1, zorder=0)
    axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    axes.set_xlabel("throughput relative to no defence (right is cheaper)")
    is_ppl = "wikitext2.ppl_relative" in regression[shared[0]]["tasks"]
    axes.set_ylabel("clean perplexity added, %" if is_ppl else "robustness score lost at ε = 0")
    if is_ppl:
        axes.set_yscale("symlog", linthresh=1.0)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _clean_cost(entry: Record) -> tuple[Record, float]:
    """The cost of a defence on clean input and its unit: perplexity in percent, else the score."""
    relative = entry["tasks"].get("wikitext2.ppl_relative")
    return (entry, 1.0) if relative is None else (relative, 100.0)


def logit_sensitivity(metrics: Record) -> Any:
    """Figure C: drift of the next-token logits against the norm of a perturbation of the state."""
    from matplotlib import pyplot

    points = metrics["stability.logit_sensitivity"]
    settings = metrics["stability.settings"]
    names = headline(list(points[0]["value"]))
    figure, axes = pyplot.subplots(figsize=(8.0, 4.4))
    norms = [point["delta_norm"] for point in points]
    small = min((n for n in norms if n > 0), default=1.0)
    largest = max(max(point["value"].values()) for point in points)
    for name in names:
        drawn = [
            {"delta_norm": p["delta_norm"], "value": p["value"][name], "ci": p["ci"][name]} for p in points
        ]
        text = label(name)
        if name in ("heuristics", "cachemedic"):
            text = f"{text} ({settings['curves'][name]})"
        _curve(axes, drawn, "delta_norm", name, text=text)
    axes.set_xscale("symlog", linthresh=small)
    axes.set_yscale("symlog", linthresh=max(largest * 1e-4, 1e-4))
    axes.set_xticks(norms, [f"{n:g}" for n in norms])
    axes.minorticks_off()
    top = settings["topk_logits"]
    axes.set(
        xlabel="perturbation norm δ (δ = 0: drift on the clean state)",
        ylabel=f"‖z(S + δ) − z(S)‖₂, top {top} logits" if top else "‖z(S + δ) − z(S)‖₂",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    above = axes.twiny()
    above.set_xscale("symlog", linthresh=small)
    above.set_xlim(axes.get_xlim())
    above.grid(False)
    above.spines["top"].set_visible(True)
    above.set_xticks(norms, [f"{100 * p['relative_norm']:.2g}" for p in points])
    above.set_xlabel("norm of δ relative to the state, %")
    above.minorticks_off()
    return figure


def amplification_map(metrics: Record) -> Any:
    """Figure D: which layers and heads turn a perturbation into drift, before and after repair."""
    import numpy as np
    from matplotlib import colors, pyplot

    entries = metrics["stability.amplification_map"]
    names = [n for n in headline(list(entries[0]["after_by_defence"])) if n != "heuristics"]
    layers = sorted({e["layer"] for e in entries})
    heads = sorted({e["head"] for e in entries})

    def table(values: Iterable[float]) -> Any:
        grid = np.full((len(layers), len(heads)), np.nan)
        for entry, value in zip(entries, values, strict=True):
            grid[layers.index(entry["layer"]), heads.index(entry["head"])] = value
        return grid

    before = table(e["before"] for e in entries)
    after = [table(e["after_by_defence"][n] for e in entries) for n in names]
    floor = 1e-6
    low = max(floor, float(np.nanmin(before)))
    high = max(float(np.nanmax(m)) for m in (before, *after))
    rows, columns = (2 if names else 1), 1 + len(names)
    size = (2.2 + 1.5 * columns, rows * max(2.4, 0.9 + 0.16 * len(layers)))
    figure, axes = pyplot.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    shade = colors.LogNorm(low, max(high, low * 1.01))
    titles = ["no defence", *map(label, names)]
    for place, title, values in zip(axes[0], titles, [before, *after], strict=True):
        image = place.imshow(np.clip(values, low, None), norm=shade, cmap=SEQUENTIAL, aspect="auto")
        place.set_title(title, fontsize=9)
    figure.colorbar(image, ax=list(axes[0]), label="amplification γ", fraction=0.04)
    ratios = [np.log2(np.clip(m, floor, None) / np.clip(before, floor, None)) for m in after]
    if ratios:
        axes[1][0].set_visible(False)
        most = min(4.0, max(0.25, max(float(np.nanmax(np.abs(r))) for r in ratios)))
        for place, ratio in zip(axes[1][1:], ratios, strict=True):
            change = place.imshow(ratio, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
        figure.colorbar(change, ax=list(axes[1]), label="log₂(after / before)", fraction=0.04)
    for place in axes.flat:
        place.set_xticks(range(len(heads)), [str(h) for h in heads])
        place.set_yticks(range(len(layers)), [str(layer) for layer in layers], fontsize=7)
        place.grid(False)
    for place in axes[-1]:
        place.set_xlabel("KV head")
    axes[0][0].set_ylabel("layer")
    axes[0][0].tick_params(labelbottom=True)
    axes[0][0].set_xlabel("KV head")
    if ratios:
        axes[1][1].set_ylabel("layer")
        axes[1][1].tick_params(labelleft=True)
    return figure


def _curve(
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


def _names(entries: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(entry["defence"] for entry in entries))


def _pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other beats on both axes: more throughput, less lost."""
    front = [
        (x, y) for x, y in points if not any((a >= x and b <= y) and (a > x or b < y) for a, b in points)
    ]
    return sorted(set(front))
