"""Answers that changed, by kind of fault, without and with the guard."""

from __future__ import annotations

from pathlib import Path

from homeostat.core.figures import PALETTE, save, style
from homeostat.core.records import Record


def draw(metrics: Record, folder: Path) -> list[Path]:
    """Write `engine_faults.png` and `.pdf`."""
    arms = metrics["engine.faults"]
    dtypes = list(dict.fromkeys(arm["dtype"] for arm in arms))
    with style():
        from matplotlib import pyplot

        tallest = max(sum(arm["dtype"] == dtype for arm in arms) for dtype in dtypes)
        size = (4.4 * len(dtypes) + 1.2, 0.38 * tallest + 1.5)
        figure, axes = pyplot.subplots(1, len(dtypes), figsize=size, sharey=True, squeeze=False)
        for axis, dtype in zip(axes[0], dtypes, strict=True):
            here = [arm for arm in arms if arm["dtype"] == dtype]
            for shift, key, name, colour in (
                (0.18, "changed_without_guard", "without guard", PALETTE[1]),
                (-0.18, "changed_with_guard", "with guard", PALETTE[0]),
            ):
                for row, arm in enumerate(here):
                    share = arm[key]
                    label = name if row == 0 else None
                    y = len(here) - 1 - row + shift
                    axis.plot([share["low"], share["high"]], [y, y], color=colour, linewidth=1.2)
                    axis.plot(share["estimate"], y, "o", color=colour, label=label)
            axis.set(title=dtype, xlim=(-0.03, 1.03), xlabel="share of answers that changed")
            names = [arm["name"] for arm in reversed(here)]
            axis.set_yticks(range(len(here)), names)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        return save(figure, folder / "engine_faults.png")
