"""Does a repair ever do harm? Every task, type and severity of finished runs of configs/families.yaml.

    homeostat cache run configs/families.yaml --out runs/smollm2 --workers 2 --set model.name=smollm2-135m
    python -m benchmarks.families runs/smollm2 runs/gemma3 runs/qwen [--docs docs/families.md]

For each run the score of every defence in every cell, and what it changes against no repair, paired by
example with a 95 % bootstrap interval (log-likelihood of a token for perplexity, else the share of right
answers). A cell is harmed where a defence is certainly (by that interval) behind no repair and behind the
undamaged cache: damage can help by chance, and to bring that back to the reference is no harm. G, which could
have forgotten what damage can reach, must not be behind forgetting in the same sense either. With `--docs`
the tables go between the page's marks, one pair named after each run's model. Nothing is measured again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml
from benchmarks.repair_recovery import insert
from benchmarks.results_page import TITLES, header, row, tasks_of

from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.labels import label
from homeostat.core import stats

COMPARED = ("safe", "G", "guard")
Scores = dict[str, dict[str, np.ndarray]]  # by task and defence: examples × cells


def read_scores(run_dir: Path) -> Scores:
    """What every example scored; of perplexity, the mean log-likelihood of its tokens."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for line in (run_dir / "logs" / "eval.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        for defence, cells in entry["scores"].items():
            own = [cell["value"] / cell["count"] for cell in cells]
            found.setdefault(entry["task"], {}).setdefault(defence, []).append(own)
    return {task: {name: np.array(x) for name, x in own.items()} for task, own in found.items()}


def table(run_dir: Path) -> Iterator[str]:
    """One line a cell: the scores, and G's change; then how many cells each defence harms."""
    metrics, scores = read_metrics(run_dir, "task_metrics"), read_scores(run_dir)
    harmed: dict[str, list[str]] = {name: [] for name in COMPARED}
    names = list(next(iter(scores.values())))
    yield from header("task", "damage", "ε", *map(label, names), "G − none [95 %]")
    for task, key in tasks_of(metrics).items():
        entries, own = metrics[key], scores[task]
        cells = [(e["type"], e["epsilon"]) for e in entries if e["defence"] == "none"]
        for place, (kind, epsilon) in enumerate(cells):
            at = {e["defence"]: e["value"] for e in entries if (e["type"], e["epsilon"]) == (kind, epsilon)}
            none, clean = own["none"][:, place], own["none"][:, 0]
            forgotten = max((own[n][:, place] for n in ("forget", "forget_sink")), key=np.mean)
            for name in COMPARED:
                here = own[name][:, place]
                worse = _behind(here, none) or (name == "G" and _behind(here, forgotten))
                if worse and _behind(here, clean):
                    harmed[name].append(f"{TITLES.get(task, task)} `{kind}` {epsilon:g}")
            gain = stats.paired_bootstrap(own["G"][:, place], none)
            told = f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
            values = [f"{at[name]:.4g}" for name in names]
            yield row([TITLES.get(task, task), f"`{kind}`", f"{epsilon:g}", *values, told])
    yield ""
    cells_of_all = sum(next(iter(own.values())).shape[1] for own in scores.values())
    sizes = ", ".join(f"{TITLES.get(t, t)} {len(own['none'])}" for t, own in scores.items())
    counts = "; ".join(f"{label(n)} {len(found)}" + _named(found) for n, found in harmed.items())
    yield f"Cells harmed, of {cells_of_all}: {counts}. Examples: {sizes}."


def _behind(a: np.ndarray, b: np.ndarray) -> bool:
    return stats.paired_bootstrap(a, b).high < 0


def _named(cells: list[str]) -> str:
    return f" ({', '.join(cells)})" if cells else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--docs", type=Path, help="a page to put the tables into")
    args = parser.parse_args()
    for run in args.runs:
        lines = list(table(run))
        config = yaml.safe_load((run / "config_resolved.yaml").read_text(encoding="utf-8"))
        name = config["model"]["name"]
        print("\n".join([f"\n{name}", *lines]))
        if args.docs is not None:
            insert(args.docs, name, lines)


if __name__ == "__main__":
    main()
