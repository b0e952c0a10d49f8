"""Figures C and D: stability around the clean state, drawn from its record."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cachemedicpp.plots.drawing import curve, plain, read_metrics
from cachemedicpp.plots.labels import headline, label
from homeostat.core.figures import DIVERGING, SEQUENTIAL
from homeostat.core.records import Record, read_record


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


def logit_sensitivity(metrics: Record) -> Any:
    """Figure C: drift of the next-token logits against the norm of a perturbation of the state.

    Below it, how much of the perturbation the number format let through: the cosine between the intended and
    the applied one.
    """
    from matplotlib import pyplot

    points = metrics["stability.logit_sensitivity"]
    settings = metrics["stability.settings"]
    formats = _by_dtype(metrics)
    names = headline(list(points[0]["value"]))
    sizes = [4.2, 1.2] if formats else [4.2]
    figure, rows = pyplot.subplots(
        len(sizes), 1, figsize=(8.0, sum(sizes) + 0.4), sharex=True, height_ratios=sizes, squeeze=False
    )
    axes = rows[0][0]
    norms = [point["delta_norm"] for point in points]
    small = min((n for n in norms if n > 0), default=1.0)
    drifts = [v for point in points for v in point["value"].values() if v]
    for name in names:
        drawn = [
            {"delta_norm": p["delta_norm"], "value": p["value"][name], "ci": p["ci"][name]} for p in points
        ]
        text = label(name)
        if name in ("heuristics", "cachemedic"):
            text = f"{text} ({label(settings['curves'][name])})"
        curve(axes, drawn, "delta_norm", name, text=text)
    for dtype, other in formats.items():
        if dtype != settings.get("dtype"):
            values = [p["value"]["baseline"] for p in other]
            axes.plot(norms, values, color="#555555", linestyle=":", label=f"no defence, {dtype}")
    linear = 10.0 ** math.floor(math.log10(max(drifts, default=1.0) * 1e-4))
    axes.set_xscale("symlog", linthresh=small)
    axes.set_yscale("symlog", linthresh=linear)
    axes.set_ylim(bottom=-linear / 2)  # a drift of 0 is a line inside the figure, not its frame
    axes.set_yticks([t for t in axes.get_yticks() if t >= 0])
    axes.set_xlim(left=-small / 2)
    axes.set_xticks(norms, [f"{n:g}" for n in norms])
    axes.minorticks_off()
    plain(axes.yaxis)
    top = settings["topk_logits"]
    axes.set_ylabel(f"‖z(S + δ) − z(S)‖₂, top {top} logits" if top else "‖z(S + δ) − z(S)‖₂")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    rows[-1][0].set_xlabel("perturbation norm δ (δ = 0: drift on the clean state)")
    above = axes.twiny()
    above.set_xscale("symlog", linthresh=small)
    above.set_xlim(axes.get_xlim())
    above.grid(False)
    above.spines["top"].set_visible(True)
    above.set_xticks(norms, [f"{100 * p['relative_norm']:.2g}" for p in points])
    above.set_xlabel("norm of δ relative to the state, %")
    above.minorticks_off()
    if formats:
        _cosines(rows[1][0], formats)
    return figure


def _by_dtype(metrics: Record) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for point in metrics.get("stability.logit_sensitivity_by_dtype", []):
        found.setdefault(point["dtype"], []).append(point)
    return found


def _cosines(axes: Any, formats: dict[str, list[Record]]) -> None:
    for (dtype, points), line in zip(formats.items(), ("-", ":", "--"), strict=False):
        kept = [p for p in points if p["cosine"] is not None]
        axes.plot(
            [p["delta_norm"] for p in kept],
            [p["cosine"] for p in kept],
            color="#555555",
            linestyle=line,
            marker="o",
            label=dtype,
        )
    axes.set_ylim(-0.08, 1.12)
    axes.set_ylabel("cosine")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="δ applied in", title_fontsize=9)


def amplification_map(metrics: Record) -> Any:
    """Figure D: which layers and heads turn a perturbation into drift, before and after repair.

    A colour has no place for 0 on a logarithmic scale, so 0 is written into its cell.
    """
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
    positive = np.concatenate([m[m > 0] for m in (before, *after)])
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.1, 1.0)
    rows, columns = (2 if names else 1), 1 + len(names)
    size = (2.2 + 1.5 * columns, rows * max(2.4, 0.9 + 0.16 * len(layers)))
    figure, axes = pyplot.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    shade = colors.LogNorm(low, max(high, low * 1.01))
    titles = ["no defence", *map(label, names)]
    for place, title, values in zip(axes[0], titles, [before, *after], strict=True):
        image = place.imshow(np.where(values > 0, values, np.nan), norm=shade, cmap=SEQUENTIAL, aspect="auto")
        _write_zeros(place, values == 0)
        place.set_title(title, fontsize=9)
    bar = figure.colorbar(image, ax=list(axes[0]), label="amplification γ", fraction=0.04)
    levels = np.geomspace(low, max(high, low * 1.01), 4).tolist()
    bar.set_ticks(levels, labels=[f"{level:.2g}" for level in levels])
    bar.minorticks_off()
    if names:
        axes[1][0].set_visible(False)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [np.log2(m / before) for m in after]
        finite = np.concatenate([np.abs(r[np.isfinite(r)]) for r in ratios])
        most = min(4.0, max(0.25, float(finite.max()))) if finite.size else 1.0
        for place, ratio, values in zip(axes[1][1:], ratios, after, strict=True):
            shown = np.where(np.isfinite(ratio), ratio, np.nan)
            change = place.imshow(shown, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
            _write_zeros(place, values == 0, "γ = 0")
        figure.colorbar(change, ax=list(axes[1]), label="log₂(after / before)", fraction=0.04)
        axes[1][1].set_ylabel("layer")
        axes[1][1].tick_params(labelleft=True)
    for place in axes.flat:
        place.set_facecolor("#eeeeee")
        place.set_xticks(range(len(heads)), [str(h) for h in heads])
        place.set_yticks(range(len(layers)), [str(layer) for layer in layers], fontsize=7)
        place.grid(False)
    for place in axes[-1]:
        place.set_xlabel("KV head")
    axes[0][0].set_ylabel("layer")
    axes[0][0].tick_params(labelbottom=True)
    axes[0][0].set_xlabel("KV head")
    return figure


def _write_zeros(axes: Any, zero: Any, text: str = "0") -> None:
    for row, column in zip(*zero.nonzero(), strict=True):
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="#444444")
