"""The table of the trained operators in docs/repair.md, from a run of `configs/trained.yaml`.

    homeostat cache run trained --out runs/trained
    python -m benchmarks.trained_operators runs/trained

Prints, for every family that the run trained: its parameters, steps and CPU seconds; the area under the
robustness curve and its paired difference to no defence; perplexity and needle accuracy on a clean cache; and
the logit sensitivity of small perturbations relative to no defence. A second table has perplexity, needle and
multi-key accuracy by type of damage.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FAMILIES = ("A", "B", "C", "D")
DELTAS = (0.5, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/trained"))
    run = parser.parse_args().run
    tasks, stability = _metrics(run, "task_metrics"), _metrics(run, "stability_metrics")
    names = [family for family in FAMILIES if _area(tasks, family) is not None]
    print(_main_table(run, tasks, stability, names))
    print()
    print(_by_type(tasks, names))


def _metrics(run: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "metrics" / f"{name}.json").read_text(encoding="utf-8"))
    return dict(found["metrics"])


def _main_table(run: Path, tasks: dict[str, Any], stability: dict[str, Any], names: list[str]) -> str:
    deltas = ", ".join(f"{delta:g}" for delta in DELTAS)
    head = (
        "| | parameters | steps (best) | CPU seconds | area | area − none [95 %] | clean ppl | "
        f"clean needle | sensitivity at δ {deltas}, of none | heads on |"
    )
    rows = [head, "|---" * 10 + "|"]
    for name in ("none", *names):
        area = _area(tasks, name)["value"]
        ppl = _cell(tasks, "task.wikitext2.ppl", name, "clean", 0.0)
        needle = _cell(tasks, "task.needle.accuracy", name, "clean", 0.0)
        row = [name, "", "", "", f"{area:.4f}", "", f"{ppl:.3f}", f"{needle:.2f}", "", ""]
        if name != "none":
            trained = _trained(run, name)
            checked = trained["train.validation"]
            gain = next(
                e
                for e in tasks["robustness.auc_difference"]
                if (e["defence"], e["against"]) == (name, "none")
            )
            none = _cell(tasks, "task.wikitext2.ppl", "none", "clean", 0.0)
            row[1] = f"{trained['train.parameters']:,}"
            row[2] = f"{trained['train.steps']} ({checked['best_step']})"
            row[3] = f"{trained['train.cpu_seconds']:.0f}"
            row[5] = f"{gain['value']:+.4f} [{gain['ci'][0]:+.4f}, {gain['ci'][1]:+.4f}]"
            row[6] += f" ({ppl / none - 1:+.2%})"
            row[8] = ", ".join(f"{_sensitivity(stability, name, delta):.3f}" for delta in DELTAS)
            parts = checked["parts"]
            row[9] = f"{parts['of'] - len(parts['off'])} of {parts['of']}" if parts["of"] else ""
        rows.append("| " + " | ".join(row) + " |")
    return "\n".join(rows)


def _by_type(tasks: dict[str, Any], names: list[str]) -> str:
    """Perplexity and accuracies of every cell: no defence, then each family."""
    metrics = ("task.wikitext2.ppl", "task.needle.accuracy", "task.multikey.accuracy")
    cells = [(e["type"], e["epsilon"]) for e in tasks[metrics[0]] if e["defence"] == "none"]
    rows = ["| damage | ε | " + " | ".join(["no defence", *names]) + " |", "|---" * (3 + len(names)) + "|"]
    for kind, epsilon in cells:
        each = []
        for name in ("none", *names):
            ppl, needle, keys = (_cell(tasks, metric, name, kind, epsilon) for metric in metrics)
            each.append(f"{ppl:.4g} · {needle:.2f} · {keys:.2f}")
        rows.append(f"| `{kind}` | {epsilon:g} | " + " | ".join(each) + " |")
    return "\n".join(rows)


def _area(tasks: dict[str, Any], name: str) -> Any:
    return next((entry for entry in tasks["robustness.auc"] if entry["defence"] == name), None)


def _cell(tasks: dict[str, Any], metric: str, name: str, kind: str, epsilon: float) -> float:
    found = next(e for e in tasks[metric] if (e["defence"], e["type"], e["epsilon"]) == (name, kind, epsilon))
    return float(found["value"])


def _sensitivity(stability: dict[str, Any], name: str, delta: float) -> float:
    curves = stability["stability.settings"]["curves"]
    curve = next(curve for curve, defence in curves.items() if defence == name)
    point = next(p for p in stability["stability.logit_sensitivity"] if p["delta_norm"] == delta)
    return float(point["value"][curve] / point["value"]["baseline"])


def _trained(run: Path, name: str) -> dict[str, Any]:
    other = run / "families" / name
    return _metrics(other if other.exists() else run, "train_metrics")


if __name__ == "__main__":
    main()
