"""Perplexity against severity, by type of damage: no defence, best heuristic, A, B, C, G, guard.

    python -m benchmarks.repair_figure RUN_DIR [--out docs/figures/repair.png]

Draws the Wikitext-2 values that a finished `homeostat cache run` (configs/cpu.yaml) has on record, with their
95 % intervals; nothing is measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cachemedicpp.labels import headline, label, look
from cachemedicpp.plots import read_metrics
from homeostat.figures import save, style

VALUES = "task.wikitext2.ppl"


def draw(entries: list[dict[str, Any]], out: Path) -> list[Path]:
    """One panel a type; epsilon 0 is the clean cache, which all types share."""
    types = [kind for kind in dict.fromkeys(e["type"] for e in entries) if kind != "clean"]
    defences = headline(list(dict.fromkeys(e["defence"] for e in entries)))
    ticks = sorted({e["epsilon"] for e in entries})
    with style():
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(2, -(-len(types) // 2), figsize=(10, 5.6), sharex=True, sharey=True)
        for panel, kind in zip(axes.flat, types, strict=False):
            for name in defences:
                points = [e for e in entries if e["defence"] == name and e["type"] in (kind, "clean")]
                points.sort(key=lambda e: e["epsilon"])
                x = [ticks.index(e["epsilon"]) for e in points]
                looks = look(name) | ({"linestyle": "--"} if name == "none" else {})
                panel.plot(x, [e["value"] for e in points], label=label(name), **looks)
                low, high = ([e["ci"][end] for e in points] for end in (0, 1))
                panel.fill_between(x, low, high, color=looks["color"], alpha=0.13, linewidth=0)
            panel.set(title=kind.replace("_", " "), yscale="log")
            panel.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        for panel in axes[-1]:
            panel.set_xlabel("severity epsilon")
        for row in axes:
            row[0].set_ylabel("perplexity")
        handles, names = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        return save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/repair.png"))
    args = parser.parse_args()
    for path in draw(read_metrics(args.run_dir, "task_metrics")[VALUES], args.out):
        print(path)


if __name__ == "__main__":
    main()
