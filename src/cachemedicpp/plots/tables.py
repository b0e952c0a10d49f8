"""The two tables of the protocol, written from records and nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from cachemedicpp.plots.drawing import read_metrics, read_settings
from cachemedicpp.plots.labels import ORACLE, headline, label, main_defence
from homeostat.core.records import Record
from homeostat.core.tables import PaperTable
from homeostat.report.names import shown

MAIN, ABLATION = "table_main_results", "table_ablation_summary"
_INTERVAL = "(95 % CI)"
_POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def render(run_dir: Path) -> list[Path]:
    """Write both tables of a run into `paper/tables`."""
    tables = (main_results(read_metrics(run_dir, "task_metrics")), ablation_summary([run_dir]))
    return [table.write(run_dir / "paper" / "tables") for table in tables]


def main_results(metrics: Record) -> PaperTable:
    """One row per defence: clean and corrupted metrics of every task, area, difference and throughput."""
    areas = {e["defence"]: e for e in metrics["robustness.auc"]}
    gains = {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == "none"}
    overhead = {e["defence"]: e for e in metrics.get("overhead", [])}
    tasks = [key for key in metrics if key.startswith("task.")]
    names = headline(list(areas))
    heuristics = [n for n in areas if n not in names and not n.endswith(ORACLE)]
    oracle = [n for n in areas if n.endswith(ORACLE)]
    largest = max(e["epsilon"] for e in metrics["robustness.score"])

    def row(name: str) -> list[str]:
        return [
            label(name),
            *(_clean_and_corrupted(task, metrics[task], name, largest) for task in tasks),
            _with_ci(areas[name]),
            _with_ci(gains[name], sign=True) if name in gains else "–",
            f"{overhead[name]['relative_throughput']:.2f}" if name in overhead else "–",
        ]

    caption = (
        f"Clean value, then the mean over corruption types at ε = {largest:g} (for perplexity the "
        "geometric mean). AUC is the area under the robustness curve. All defences but guard are blind "
        "unless marked; the best heuristic is picked on one half of the examples and reported on the other."
    )
    columns = ["Defence", *(_task_title(t) for t in tasks), f"AUC {_INTERVAL}", "ΔAUC", "Throughput"]
    return PaperTable(MAIN, caption, columns, [[*map(row, group)] for group in (names, heuristics, oracle)])


def ablation_summary(run_dirs: Sequence[Path]) -> PaperTable:
    """One row per run: what it varied and what it measured."""
    columns = ["Family", "apply to", "rank", "layers", "λ_contr", "types trained", "types tested", "seed",
               "AUC none", "AUC repair", f"ΔAUC {_INTERVAL}", "clean loss"]  # fmt: skip
    rows = []
    for run_dir in run_dirs:
        *varied, none, repair, gain, loss = ablation_row(run_dir).values()
        measured = [f"{none:.4f}", f"{repair:.4f}", _with_ci(gain, sign=True), f"{loss:+.4f}"]
        rows.append([*map(str, varied), *measured])
    count = len(run_dirs)
    caption = f"Ablations: {count} run{'s' if count != 1 else ''}, each row measured in that run."
    return PaperTable(ABLATION, caption, columns, [rows])


def ablation_row(run_dir: Path) -> Record:
    """What a run varied (from its resolved configuration) and what it measured (from its records)."""
    config = read_settings(run_dir)
    metrics = read_metrics(run_dir, "task_metrics")
    areas = {e["defence"]: e for e in metrics["robustness.auc"]}
    family = main_defence(config["repair"]["family"], areas)
    gains = {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == "none"}
    clean = {e["defence"]: e for e in metrics["clean_regression"]}
    repair, types = config["repair"], [t for t, w in config["corruption"]["mixture"].items() if w > 0]
    tested = config["eval"]["corruption_eval"]["types"]
    protected = repair["protect_layers"]
    known = shown(family)
    learned = known is not None and known.kind == "trained"
    return {
        "family": family,
        "apply_to": repair["apply_to"] if learned else "KV",
        "rank": repair["rank"] if known is not None and "rank" in known.keys else "–",
        "layers": protected if isinstance(protected, str) else ",".join(map(str, protected)),
        "lambda_contr": config["train"]["lambda_contr"] if learned else "–",
        "train_types": len(types),
        "test_types": tested[0] if len(tested) == 1 else len(tested),
        "seed": config["seed"],
        "auc_none": areas["none"]["value"],
        "auc": areas[family]["value"],
        "gain": gains[family],
        "clean_loss": clean[family]["value"],
    }


def _task_title(key: str) -> str:
    return label(key.removeprefix("task.")).replace("perplexity", "ppl").replace("accuracy", "acc.")


def _clean_and_corrupted(task: str, entries: Sequence[Record], defence: str, epsilon: float) -> str:
    own = [e for e in entries if e["defence"] == defence]
    clean = next(e["value"] for e in own if e["epsilon"] == 0)
    worst = [e["value"] for e in own if e["epsilon"] == epsilon]
    if any(value is None for value in worst):
        return f"{clean:.2f} / ∞"
    if task.endswith(".ppl"):
        return f"{clean:.2f} / {_short(statistics.geometric_mean(worst))}"
    return f"{clean:.2f} / {statistics.fmean(worst):.2f}"


def _short(value: float) -> str:
    """One digit after the point; from 10⁴ on two digits and a power."""
    if value < 1e4:
        return f"{value:.1f}"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits} × 10{str(int(power)).translate(_POWERS)}"


def _with_ci(entry: Record, sign: bool = False) -> str:
    form = "{:+.4f}" if sign else "{:.4f}"
    low, high = entry["ci"]
    return f"{form.format(entry['value'])} [{form.format(low)}, {form.format(high)}]"
