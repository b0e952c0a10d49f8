"""Repeatability and correctness against the severity of state damage, one line a defence."""

from __future__ import annotations

from pathlib import Path

from homeostat.figures import MARKERS, PALETTE, save, style
from homeostat.records import Record

PANELS = {
    "oracle_pass": "share that passes the oracle",
    "r_raw": "R_raw (modal share)",
    "r_anchor": "R_anchor (at the canon after repair)",
    "mu_post": "mean distance to the canon after repair",
}


def draw(metrics: Record, folder: Path) -> list[Path]:
    """Write `joint.png` and `joint.pdf`."""
    clean, *damaged = metrics["joint.arms"]
    defences = list(dict.fromkeys(arm["defence"] for arm in damaged))
    with style():
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(1, len(PANELS), figsize=(3.1 * len(PANELS), 3.2))
        for axis, (key, title) in zip(axes, PANELS.items(), strict=True):
            axis.axhline(clean[key]["estimate"], color="black", linewidth=1, linestyle="--", label="clean")
            axis.axhspan(clean[key]["low"], clean[key]["high"], color="black", alpha=0.07, linewidth=0)
            for number, defence in enumerate(defences):
                arms = [arm for arm in damaged if arm["defence"] == defence]
                spread = (
                    number - (len(defences) - 1) / 2
                ) * 0.012  # so that intervals do not hide each other
                x = [arm["epsilon"] * (1 + spread) for arm in arms]
                y = [arm[key]["estimate"] for arm in arms]
                errors = [
                    [max(0.0, arm[key]["estimate"] - arm[key]["low"]) for arm in arms],
                    [max(0.0, arm[key]["high"] - arm[key]["estimate"]) for arm in arms],
                ]
                look = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
                axis.errorbar(x, y, errors, label=Path(defence).name, capsize=2, linewidth=1.3, **look)
            axis.set(title=title, xlabel="severity epsilon", ylim=(-0.03, 1.03), xscale="log")
            ticks = sorted({arm["epsilon"] for arm in damaged})
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 8))
        return save(figure, folder / "joint.png")
