"""The tables of operator E in docs/repair.md, from a run of `configs/learned.yaml`.

    homeostat cache run learned --out runs/learned
    python -m benchmarks.learned_operator runs/learned

Prints the curve of the local stage; for every defence the area, its paired difference to no defence, and what
it costs on a clean cache; every cell; and stability: logit sensitivity at each norm, and in how many heads
amplification is lower than without a defence.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/learned"))
    run = parser.parse_args().run
    train, tasks = _metrics(run, "train_metrics"), _metrics(run, "task_metrics")
    print(_training(train), _areas(tasks), _cells(tasks), sep="\n\n")
    if (run / "metrics" / "stability_metrics.json").exists():
        print("\n" + _stability(_metrics(run, "stability_metrics")))


def _metrics(run: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "metrics" / f"{name}.json").read_text(encoding="utf-8"))
    return dict(found["metrics"])


def _training(train: dict[str, Any]) -> str:
    local, check = train["train.local"], train["train.validation"]
    kept = check["parts"]["after"]
    lines = [
        f"{train['train.parameters']:,} parameters ({train['train.parameter_share']:.2%} of the model), "
        f"{train['train.steps']} steps, {train['train.cpu_seconds']:.0f} CPU seconds",
        "local validation by step: " + ", ".join(f"{step}: {loss:.4f}" for step, loss in local["curve"]),
        "",
        "| KL to the clean model | no defence | start | trained |",
        "|---|---|---|---|",
    ]
    for part in ("text_damaged", "text_clean", "retrieval_damaged", "retrieval_clean"):
        values = (check["none"][part], check["start"][part], kept[part])
        lines.append(f"| {part.replace('_', ', ')} | " + " | ".join(f"{x:.2g}" for x in values) + " |")
    return "\n".join(lines)


def _areas(tasks: dict[str, Any]) -> str:
    rows = [
        "| defence | area, all tasks | − none [95 %] | clean perplexity | clean multi-key |",
        "|---" * 5 + "|",
    ]
    ppl = {e["defence"]: e["value"] for e in tasks["task.wikitext2.ppl"] if e["epsilon"] == 0}
    keys = {e["defence"]: e["value"] for e in tasks["task.multikey.accuracy"] if e["epsilon"] == 0}
    gains = {e["defence"]: e for e in tasks["robustness.auc_difference_all_tasks"] if e["against"] == "none"}
    for entry in tasks["robustness.auc_all_tasks"]:
        name = entry["defence"]
        if name not in ppl:
            continue
        gain = gains.get(name)
        told = "" if gain is None else f"{gain['value']:+.4f} [{gain['ci'][0]:+.4f}, {gain['ci'][1]:+.4f}]"
        change = ppl[name] / ppl["none"] - 1
        rows.append(
            f"| {name} | {entry['value']:.4f} | {told} | {ppl[name]:.2f} ({change:+.2%}) | {keys[name]:.2f} |"
        )
    return "\n".join(rows)


def _cells(tasks: dict[str, Any]) -> str:
    """Perplexity and multi-key accuracy of every cell."""
    metrics = ("task.wikitext2.ppl", "task.multikey.accuracy")
    names = list(dict.fromkeys(e["defence"] for e in tasks[metrics[0]]))
    rows = ["| damage | ε | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for cell in (e for e in tasks[metrics[0]] if e["defence"] == "none"):
        each = []
        for name in names:
            where = (name, cell["type"], cell["epsilon"])
            ppl, keys = (
                next(e["value"] for e in tasks[m] if (e["defence"], e["type"], e["epsilon"]) == where)
                for m in metrics
            )
            each.append(f"{ppl:.4g} · {keys:.2f}")
        rows.append(f"| `{cell['type']}` | {cell['epsilon']:g} | " + " | ".join(each) + " |")
    return "\n".join(rows)


def _stability(metrics: dict[str, Any]) -> str:
    curves = metrics["stability.settings"]["curves"]
    points = metrics["stability.logit_sensitivity"]
    norms = [p["delta_norm"] for p in points]
    rows = [
        "| sensitivity | " + " | ".join(f"δ {n:g}" for n in norms) + " |",
        "|---" * (1 + len(norms)) + "|",
    ]
    for curve, defence in curves.items():
        values = [p["value"][curve] for p in points]
        rows.append(f"| {defence} | " + " | ".join(f"{v:.3g}" for v in values) + " |")
    entries = metrics["stability.amplification_map"]
    for curve, defence in curves.items():
        if curve != "baseline":
            lower = sum(e["after_by_defence"][curve] < e["before"] for e in entries)
            rows.append(f"\n{defence}: amplification below no defence in {lower} of {len(entries)} heads")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
