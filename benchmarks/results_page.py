"""The tables and figures of docs/specs/70_RESULTS.md, from a finished `homeostat cache run`.

    python -m benchmarks.results_page RUN_DIR [--docs docs/specs/70_RESULTS.md]

Prints Markdown tables of what the run has on record; with `--docs` puts them between that page's marks and
copies the locked figures beside it. Nothing is measured again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.repair_recovery import insert

from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.labels import headline, label
from homeostat.core.records import Record

TASKS = {"task.wikitext2.ppl": "ppl", "task.sst2.accuracy": "SST-2", "task.needle.accuracy": "needle"}
FIGURES = (
    "figA_score_vs_eps.png",
    "figB_clean_vs_overhead_pareto.png",
    "figC_logit_sensitivity.png",
    "figD_amplification_map.png",
)


def by_defence(metrics: Record) -> Iterator[str]:
    """One row per defence: each task clean and at the largest epsilon, area, difference, cost, speed."""
    largest = max(e["epsilon"] for e in metrics["robustness.score"])
    areas = {e["defence"]: e for e in metrics["robustness.auc"]}
    gains = {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == "none"}
    costs = {e["defence"]: e for e in metrics["clean_regression"]}
    speeds = {e["defence"]: e["relative_throughput"] for e in metrics.get("overhead", [])}
    titles = [f"{title}, clean → ε {largest:g}" for title in TASKS.values()]
    yield from header("defence", *titles, "AUC [95 %]", "Δ to none [95 %]", "clean ppl added", "throughput")
    names = headline(list(areas))
    for name in [*names, *(n for n in areas if n not in names and ":" not in n)]:
        cells = [label(name)]
        for task in TASKS:
            entries = [e for e in metrics[task] if e["defence"] == name]
            clean = next(e["value"] for e in entries if e["epsilon"] == 0)
            worst = [e["value"] for e in entries if e["epsilon"] == largest]
            mean = statistics.geometric_mean if task.endswith("ppl") else statistics.fmean
            cells.append(f"{clean:.4g} → {mean(worst):.4g}")
        cells += [interval(areas[name]), interval(gains[name], "+") if name in gains else ""]
        added = costs[name]["tasks"]["wikitext2.ppl_relative"]["value"]
        cells += [f"{100 * added:+.2f} %", f"{speeds[name]:.2f}" if name in speeds else ""]
        yield row(cells)


def by_type(metrics: Record) -> Iterator[str]:
    """Perplexity of each type at each epsilon."""
    entries = metrics["task.wikitext2.ppl"]
    names = headline(list(dict.fromkeys(e["defence"] for e in entries)))
    yield from header("damage", "ε", *map(label, names))
    kinds = dict.fromkeys((e["type"], e["epsilon"]) for e in entries)
    for kind, epsilon in sorted(kinds, key=lambda k: (k[0] != "clean", k)):
        values = {e["defence"]: e for e in entries if (e["type"], e["epsilon"]) == (kind, epsilon)}
        low, high = values["none"]["ci"]
        none = f"{values['none']['value']:.4g} [{low:.4g}, {high:.4g}]"
        rest = [f"{values[n]['value']:.4g}" if n in values else "" for n in names if n != "none"]
        yield row([f"`{kind}`", f"{epsilon:g}", none, *rest])


def sensitivity(metrics: Record) -> Iterator[str]:
    """Logit drift by norm of the perturbation, and what it is relative to no defence."""
    points = metrics["stability.logit_sensitivity"]
    used = metrics["stability.settings"]["curves"]
    names = headline(list(points[0]["value"]))
    yield from header(
        "δ", "relative norm", *(f"{label(n)} ({used[n]})" if used.get(n, n) != n else label(n) for n in names)
    )
    for point in points:
        base = point["value"]["baseline"]
        cells = [f"{point['delta_norm']:g}", f"{100 * point['relative_norm']:.2g} %"]
        for name in names:
            value = point["value"][name]
            ratio = f" ({value / base:.3g} ×)" if base and name != "baseline" else ""
            cells.append(f"{value:.3g}{ratio}")
        yield row(cells)


def amplification(metrics: Record) -> Iterator[str]:
    """Amplification after repair over before, by defence: median and largest over layers and heads."""
    entries = metrics["stability.amplification_map"]
    yield from header("defence", "median after / before", "largest after / before", "median before")
    before = statistics.median(e["before"] for e in entries)
    for name in entries[0]["after_by_defence"]:
        ratios = [e["after_by_defence"][name] / e["before"] for e in entries if e["before"]]
        yield row([label(name), f"{statistics.median(ratios):.3g}", f"{max(ratios):.3g}", f"{before:.3g}"])


def header(*titles: str) -> Iterator[str]:
    yield row(titles)
    yield "|---" * len(titles) + "|"


def row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def interval(entry: Record, sign: str = "") -> str:
    low, high = entry["ci"]
    return f"{entry['value']:{sign}.4f} [{low:{sign}.4f}, {high:{sign}.4f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--docs", type=Path, help="a page to put the tables into")
    args = parser.parse_args()
    tasks = read_metrics(args.run_dir, "task_metrics")
    stability = read_metrics(args.run_dir, "stability_metrics")
    parts = {
        "by defence": list(by_defence(tasks)),
        "by type": list(by_type(tasks)),
        "sensitivity": list(sensitivity(stability)),
        "amplification": list(amplification(stability)),
    }
    for name, lines in parts.items():
        print(f"\n{name}\n\n" + "\n".join(lines))
        if args.docs is not None:
            insert(args.docs, name, lines)
    if args.docs is not None:
        folder = args.docs.parent / "figures"
        folder.mkdir(exist_ok=True)
        for name in FIGURES:
            shutil.copyfile(args.run_dir / "paper" / "figures" / name, folder / name)


if __name__ == "__main__":
    main()
