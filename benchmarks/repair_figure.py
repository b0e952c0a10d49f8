"""Perplexity against severity, by type of damage: no defence, the best heuristic, operators, guard.

    python -m benchmarks.repair_figure RUN_DIR [--out docs/figures/repair.png]

Draws the Wikitext-2 scores that a finished `homeostat cache run` (configs/families.yaml) has on record;
nothing is measured again. The best heuristic is the run's with the lowest perplexity over all damage. Bands
are 95 % bootstrap intervals of the change from the clean cache, window by window: how hard the windows
themselves are is the same for all curves and left out of them.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from cachemedicpp.plots.labels import headline, label, look
from homeostat.core.figures import save, style
from homeostat.core.records import read_jsonl
from homeostat.core.stats import bootstrap
from homeostat.report.names import heuristics

Cell = tuple[str, float]  # type, epsilon
Point = tuple[float, float, float]  # perplexity, low, high
STEP = 0.05  # between the points of two defences, in ticks


def curves(run_dir: Path) -> dict[str, dict[Cell, Point]]:
    """By defence and cell, the perplexity and its paired interval."""
    rows = [row for row in read_jsonl(run_dir / "logs/eval.jsonl") if row["task"] == "wikitext2"]
    cells = [("clean", 0.0), *((event["type"], event["epsilon"]) for event in rows[0]["events"])]
    # [windows, cells] mean log-likelihood of a token
    scores = {
        name: np.array([[s["value"] / s["count"] for s in row["scores"][name]] for row in rows])
        for name in rows[0]["scores"]
    }
    single = [name for name in scores if name in heuristics()]
    scores["best_heuristic"] = scores[max(single, key=lambda name: scores[name][:, 1:].mean())]
    clean = scores["none"][:, 0]
    whole = math.exp(-clean.mean())
    found: dict[str, dict[Cell, Point]] = {}
    for name in [name for name in headline(list(scores)) if name != "safe"]:  # mostly on top of no defence
        lost = [bootstrap(clean - scores[name][:, i]) for i in range(len(cells))]
        points = [(x.estimate, x.low, x.high) for x in lost]
        found[name] = {
            cell: tuple(whole * math.exp(x) for x in point)  # type: ignore[misc]
            for cell, point in zip(cells, points, strict=True)
        }
    return found


def draw(found: dict[str, dict[Cell, Point]], out: Path) -> list[Path]:
    """One panel per type, each with its own scale; epsilon 0 is the clean cache, which all types share."""
    cells = list(found["none"])
    types = [kind for kind in dict.fromkeys(kind for kind, _ in cells) if kind != "clean"]
    ticks = sorted({epsilon for _, epsilon in cells})
    with style():
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(2, -(-len(types) // 2), figsize=(10, 5.6), sharex=True)
        for panel, kind in zip(axes.flat, types, strict=False):
            for number, (name, points) in enumerate(found.items()):
                beside = STEP * (number - (len(found) - 1) / 2)
                chosen = {e: point for (k, e), point in points.items() if k in (kind, "clean")}
                x = [ticks.index(epsilon) + beside for epsilon in chosen]
                value, low, high = zip(*chosen.values(), strict=True)
                looks = look(name) | ({"linestyle": "--"} if name == "none" else {})
                panel.plot(x, value, label=label(name), **looks)
                panel.fill_between(x, low, high, color=looks["color"], alpha=0.13, linewidth=0)
            panel.set(title=kind.replace("_", " "), yscale="log")
            panel.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
            if panel.get_ylim()[1] < 300:
                plain_ticks(panel)
        for panel in axes[-1]:
            panel.set_xlabel("severity epsilon")
        for row in axes:
            row[0].set_ylabel("perplexity")
        handles, names = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        return save(figure, out)


def plain_ticks(panel: Any) -> None:
    """Numbers people read, where a logarithmic axis spans little."""
    from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator, StrMethodFormatter

    panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/repair.png"))
    args = parser.parse_args()
    for path in draw(curves(args.run_dir), args.out):
        print(path)


if __name__ == "__main__":
    main()
