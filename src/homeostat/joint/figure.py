"""Repeatability and correctness against the severity of state damage, one line per defence."""

from __future__ import annotations

from pathlib import Path

from cachemedicpp.plots.labels import headline, label, look
from homeostat.core.figures import save, style
from homeostat.core.records import Record

PANELS = {
    "oracle_pass": "passes the oracle",
    "r_raw": "R_raw",
    "r_anchor": "R_anchor, after repair of the code",
    "mu_post": "mean distance to the canon, after it",
}


def draw(metrics: Record, folder: Path) -> list[Path]:
    """Write `joint.png` and `joint.pdf`."""
    clean, *damaged = metrics["joint.arms"]
    found = list(dict.fromkeys(Path(arm["defence"]).name for arm in damaged))
    main = headline(found)
    defences = [*main, *(name for name in found if name not in main)]
    ticks = sorted({arm["epsilon"] for arm in damaged})
    with style():
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(2, 2, figsize=(8.6, 6.2), sharex=True, sharey=True)
        for axis, (key, title) in zip(axes.flat, PANELS.items(), strict=True):
            axis.axhline(clean[key]["estimate"], color="black", linewidth=1, linestyle=":", label="clean")
            axis.axhspan(clean[key]["low"], clean[key]["high"], color="black", alpha=0.07, linewidth=0)
            for number, name in enumerate(defences):
                arms = [arm for arm in damaged if Path(arm["defence"]).name == name]
                shift = (number - (len(defences) - 1) / 2) * 0.035  # so that intervals stay apart
                x = [ticks.index(arm["epsilon"]) + shift for arm in arms]
                y = [arm[key]["estimate"] for arm in arms]
                errors = [
                    [max(0.0, arm[key]["estimate"] - arm[key]["low"]) for arm in arms],
                    [max(0.0, arm[key]["high"] - arm[key]["estimate"]) for arm in arms],
                ]
                thin = {"linewidth": 1.5} if name in main else {"linewidth": 0.8, "linestyle": "--"}
                axis.errorbar(
                    x, y, errors, label=label(name), capsize=2, **{**thin, **look(name), "markersize": 4}
                )
            axis.set(title=title, ylim=(-0.03, 1.03))
            axis.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        for axis in axes[-1]:
            axis.set_xlabel("severity epsilon")
        for row in axes:
            row[0].set_ylabel("share, distance")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6)
        return save(figure, folder / "joint.png")
