"""The tables of the pages on baselines, leave-one-type-out and ablations, from finished runs.

    python -m benchmarks.evaluation_pages baselines RUN_DIR --docs docs/specs/60_BASELINES_ABLATIONS.md
    python -m benchmarks.evaluation_pages loto SWEEP_DIR --docs docs/specs/80_LEAVE_ONE_OUT.md
    python -m benchmarks.evaluation_pages ablations SWEEP_DIR --docs docs/specs/60_BASELINES_ABLATIONS.md

Prints Markdown; with `--docs` puts it between the page's marks. Nothing is measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.repair_recovery import insert
from benchmarks.results_page import TITLES, beaten, header, interval, row, tasks_of

from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.labels import label
from homeostat.core.records import Record, read_record


def baselines(run_dir: Path) -> Iterator[str]:
    """Perplexity of every defence in every cell, with intervals over windows."""
    metrics = read_metrics(run_dir, "task_metrics")
    entries = metrics["task.wikitext2.ppl"]
    cells = list(dict.fromkeys((e["type"], e["epsilon"]) for e in entries))
    yield from header(
        "defence", *(f"`{kind}` {epsilon:g}" if epsilon else "clean" for kind, epsilon in cells)
    )
    for name in dict.fromkeys(e["defence"] for e in entries):
        own = [e for e in entries if e["defence"] == name]
        yield row([label(name), *(f"{e['value']:.4g} [{e['ci'][0]:.3g}, {e['ci'][1]:.3g}]" for e in own)])


def ahead(run_dir: Path) -> Iterator[str]:
    """The cells of the same run in which a baseline beats G."""
    yield from beaten(read_metrics(run_dir, "task_metrics"))


def loto(sweep_dir: Path) -> Iterator[str]:
    """Held-out type by type: the area of every defence, over both tasks, with intervals over examples."""
    found: dict[str, Record] = {}
    for run in read_record(sweep_dir / "sweep.json", "sweep")["runs"]:
        if run["ok"]:
            found[run["variant"]] = read_metrics(sweep_dir / run["folder"], "task_metrics")
    yield from header("defence", *(f"`{variant}`" for variant in found))
    names = dict.fromkeys(e["defence"] for metrics in found.values() for e in metrics["robustness.auc"])
    for name in names:
        cells = [label(name)]
        for metrics in found.values():
            area = {e["defence"]: e for e in metrics["robustness.auc"]}.get(name)
            gain = {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == "none"}
            told = "" if area is None else f"{area['value']:.3f}"
            cells.append(f"{told} ({interval(gain[name], '+', 3)})" if area and name in gain else told)
        yield row(cells)


def loto_tasks(sweep_dir: Path) -> Iterator[str]:
    """The same at the largest epsilon, task by task, for the defences that matter most."""
    shown = ("none", "best_heuristic", "forget", "reset_clear", "A", "B", "C", "D", "G", "G_without")
    yield from header("held out", "task", *(label(name) for name in shown))
    for run in read_record(sweep_dir / "sweep.json", "sweep")["runs"]:
        if not run["ok"]:
            continue
        metrics = read_metrics(sweep_dir / run["folder"], "task_metrics")
        for task, key in tasks_of(metrics).items():
            largest = max(e["epsilon"] for e in metrics[key])
            at = {e["defence"]: e["value"] for e in metrics[key] if e["epsilon"] == largest}
            values = [f"{at[name]:.4g}" if name in at else "" for name in shown]
            yield row([f"`{run['variant']}`", TITLES.get(task, task), *values])


def ablations(sweep_dir: Path) -> Iterator[str]:
    """Every variant's gain over no defence, and its difference to the reference's, paired by example."""
    yield from header(
        "variant", "AUC", "AUC, no defence", "gain [95 %]", "gain − reference's [95 %]", "clean loss"
    )
    for variant in read_record(sweep_dir / "sweep.json", "sweep")["variants"]:
        figures = variant["figures"]
        cells = [f"`{variant['variant']}`", *(f"{figures[k]['estimate']:.4f}" for k in ("auc", "auc_none"))]
        for key in ("auc_gain_over_examples", "auc_gain_minus_reference_over_examples"):
            f = figures.get(key)
            cells.append("" if f is None else f"{f['estimate']:+.4f} [{f['low']:+.4f}, {f['high']:+.4f}]")
        yield row([*cells, f"{figures['clean_loss']['estimate']:+.4f}"])


PAGES: dict[str, dict[str, Callable[[Path], Iterator[str]]]] = {
    "baselines": {"baselines": baselines, "ahead of G": ahead},
    "loto": {"loto": loto, "loto tasks": loto_tasks},
    "ablations": {"ablations": ablations},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=sorted(PAGES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, help="a page to put the tables into")
    args = parser.parse_args()
    for name, table in PAGES[args.what].items():
        lines = list(table(args.folder))
        print(f"\n{name}\n\n" + "\n".join(lines))
        if args.docs is not None:
            insert(args.docs, name, lines)


if __name__ == "__main__":
    main()
