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

TITLES = {
    "wikitext2": "Wikitext-2 (ppl)",
    "sst2": "SST-2",
    "needle": "needle",
    "induction": "copying",
    "multikey": "multi-key",
    "tracking": "tracking",
    "fewshot": "few-shot",
}
FIGURES = (
    "figA_score_vs_eps.png",
    "figC_logit_sensitivity.png",
    "figD_amplification_map.png",
)


def tasks_of(metrics: Record) -> dict[str, str]:
    """Each task's key in the record."""
    return {key.split(".")[1]: key for key in metrics if key.startswith("task.")}


def training(metrics: Record) -> Iterator[str]:
    """What the local stage leaves of each kind of damage on windows that were kept aside."""
    local = metrics["train.local"]
    yield from header("damage", "left of `log(1 + D)`", "damaged vectors changed", "sound vectors changed")
    for cell, own in local["cells"].items():
        left = "" if own["left"] is None else f"{own['left']:.3f}"
        found = "" if own["found"] is None else f"{100 * own['found']:.1f} %"
        yield row([cell, left, found, f"{100 * own['touched']:.2f} %"])


def curve(metrics: Record) -> Iterator[str]:
    """The local validation by step, and the validation through the model."""
    local, check = metrics["train.local"], metrics["train.validation"]
    yield from header("local stage, step", *(f"{step}" for step, _ in local["curve"]))
    yield row(["validation", *(f"{loss:.4f}" for _, loss in local["curve"])])
    yield ""
    yield from header("KL to the clean model", "no defence", "closed form", "trained")
    for part in ("text_damaged", "text_clean", "retrieval_damaged", "retrieval_clean"):
        values = (check["none"], check["start"], check["parts"]["after"])
        yield row([part.replace("_", ", "), *(f"{one[part]:.2g}" for one in values)])


def harmed(metrics: Record) -> Iterator[str]:
    """Damaged cells in which an operator does harm, after the correction, and what the others exclude."""
    yield from header("operator", "damaged cells", "harmed", "a loss that is excluded in all others")
    for entry in metrics["robustness.harm"]:
        told = "" if entry["excluded"] is None else f"{entry['excluded']:.3f}"
        bad = [f"{e['task']} {e['type']} {e['epsilon']:g}" for e in entry["each"] if e["harmed"]]
        shown = f"{entry['harmed']}" + (f" ({', '.join(bad)})" if bad else "")
        yield row([label(entry["operator"]), str(entry["cells"]), shown, told])


def by_task(metrics: Record) -> Iterator[str]:
    """What each task measures undamaged, what forgetting costs there, and whether the task counts."""
    yield from header("task", "n", "undamaged", "what forgetting costs [95 %]", "by", "counts")
    for task, key in tasks_of(metrics).items():
        clean = next(e for e in metrics[key] if e["defence"] == "none" and e["epsilon"] == 0)
        cost = metrics[f"forgetting.{task}"][0]
        low, high = clean["ci"]
        shown = f"{clean['value']:.4g} [{low:.4g}, {high:.4g}]"
        counts = "yes" if cost["counts"] else "no"
        yield row(
            [
                TITLES.get(task, task),
                str(clean["n"]),
                shown,
                interval(cost, "+", 3),
                label(cost["by"]),
                counts,
            ]
        )


def by_defence(metrics: Record) -> Iterator[str]:
    """One row per defence: area, differences, cost on a clean cache, speed."""
    areas = {e["defence"]: e for e in metrics["robustness.auc"]}
    everywhere = {e["defence"]: e for e in metrics["robustness.auc_all_tasks"]}
    against = {
        base: {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == base}
        for base in ("none", "best_heuristic")
    }
    costs = {e["defence"]: e for e in metrics["clean_regression"]}
    speeds = {e["defence"]: e["relative_throughput"] for e in metrics.get("overhead", [])}
    yield from header(
        "defence", "AUC [95 %]", "Δ to none [95 %]", "Δ to best heuristic [95 %]", "AUC, all tasks",
        "clean ppl added", "throughput",
    )  # fmt: skip
    for name in sorted(areas, key=lambda n: -areas[n]["value"]):
        cells = [label(name), interval(areas[name])]
        cells += [interval(found[name], "+") if name in found else "" for found in against.values()]
        added = costs[name]["tasks"].get("wikitext2.ppl_relative", {"value": None})["value"]
        cells += [f"{everywhere[name]['value']:.4f}", "" if added is None else f"{100 * added:+.2f} %"]
        yield row([*cells, f"{speeds[name]:.2f}" if name in speeds else ""])


def by_cell(metrics: Record) -> Iterator[str]:
    """Each task undamaged and at the largest epsilon: the mean over types (perplexity: geometric)."""
    largest = max(e["epsilon"] for e in metrics["robustness.score"])
    tasks = tasks_of(metrics)
    yield from header(f"clean → ε {largest:g}", *(TITLES.get(task, task) for task in tasks))
    for name in (e["defence"] for e in metrics["robustness.auc"]):
        cells = [label(name)]
        for key in tasks.values():
            entries = [e for e in metrics[key] if e["defence"] == name]
            clean = next(e["value"] for e in entries if e["epsilon"] == 0)
            worst = [e["value"] for e in entries if e["epsilon"] == largest]
            mean = statistics.geometric_mean if key.endswith("ppl") else statistics.fmean
            cells.append(f"{clean:.3g} → {mean(worst):.3g}")
        yield row(cells)


def beaten(metrics: Record) -> Iterator[str]:
    """Cells in which forgetting or the strongest baseline beats an operator; certain ones in bold."""
    yield from header("task", "damage", "ε", "operator", "beaten by (difference of scores [95 %])")
    found: dict[tuple[str, str, float, str], list[str]] = {}
    for e in metrics["robustness.beaten"]:
        told = f"{label(e['baseline'])} {interval(e, '+', 3)}"
        place = (e["task"], e["type"], e["epsilon"], e["operator"])
        found.setdefault(place, []).append(f"**{told}**" if e["certain"] else told)
    for (task, kind, epsilon, operator), told in found.items():
        yield row([TITLES.get(task, task), f"`{kind}`", f"{epsilon:g}", label(operator), "; ".join(told)])


def beaten_counts(metrics: Record) -> Iterator[str]:
    """In how many damaged cells an operator is behind some baseline, and behind forgetting."""
    tasks = tasks_of(metrics)
    cells = {
        (e["type"], e["epsilon"]) for e in next(iter(metrics[k] for k in tasks.values())) if e["epsilon"]
    }
    total = len(cells) * len(tasks)
    ways = ("forget", "reset_clear")
    yield from header(
        "operator",
        "damaged cells",
        "behind a baseline",
        "significant",
        "behind forgetting",
        "significant",
    )
    names = [e["defence"] for e in metrics["robustness.auc"]]
    for operator in (n for n in ("A", "B", "C", "D", "E", "G", "G_without") if n in names):
        own = [e for e in metrics["robustness.beaten"] if e["operator"] == operator]
        forgetting = [e for e in own if e["baseline"] in ways]
        kinds = (own, _certain(own), forgetting, _certain(forgetting))
        counts = [str(len({(e["task"], e["type"], e["epsilon"]) for e in kept})) for kept in kinds]
        yield row([label(operator), str(total), *counts])


def _certain(entries: list[Record]) -> list[Record]:
    return [e for e in entries if e["certain"]]


def by_type(metrics: Record, key: str = "task.wikitext2.ppl") -> Iterator[str]:
    """A task's metric for each type at each epsilon."""
    entries = metrics[key]
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
    names = list(points[0]["value"])
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
    yield from header("defence", "heads below no defence", "median after / before", "largest after / before")
    for name in entries[0]["after_by_defence"]:
        ratios = [e["after_by_defence"][name] / e["before"] for e in entries if e["before"]]
        lower = f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
        yield row([label(name), lower, f"{statistics.median(ratios):.3g}", f"{max(ratios):.3g}"])


def header(*titles: str) -> Iterator[str]:
    yield row(titles)
    yield "|---" * len(titles) + "|"


def row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def interval(entry: Record, sign: str = "", digits: int = 4) -> str:
    low, high = entry["ci"]
    return f"{entry['value']:{sign}.{digits}f} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--docs", type=Path, help="a page to put the tables into")
    args = parser.parse_args()
    tasks, train = (read_metrics(args.run_dir, name) for name in ("task_metrics", "train_metrics"))
    parts = {
        "curve": list(curve(train)),
        "training": list(training(train)),
        "by task": list(by_task(tasks)),
        "by defence": list(by_defence(tasks)),
        "by cell": list(by_cell(tasks)),
        "by type": list(by_type(tasks)),
        "multi-key by type": list(by_type(tasks, "task.multikey.accuracy")),
        "harmed": list(harmed(tasks)),
        "beaten counts": list(beaten_counts(tasks)),
        "beaten": list(beaten(tasks)),
    }
    if (args.run_dir / "metrics" / "stability_metrics.json").exists():
        stability = read_metrics(args.run_dir, "stability_metrics")
        parts |= {
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
