"""The two LaTeX tables of the protocol (booktabs), written from records and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.labels import headline, label, main_defence
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.report.names import shown

MAIN, ABLATION = "table_main_results.tex", "table_ablation_summary.tex"
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "λ": r"$\lambda$",
}


def render(run_dir: Path) -> list[Path]:
    """Write both tables of a run into `paper/tables`."""
    target = run_dir / "paper" / "tables"
    atomic.write_text(target / MAIN, main_results(read_metrics(run_dir, "task_metrics")))
    atomic.write_text(target / ABLATION, ablation_summary([run_dir]))
    return [target / MAIN, target / ABLATION]


def main_results(metrics: Record) -> str:
    """One row per defence: clean and corrupted metrics of every task, area, difference and throughput."""
    areas = {e["defence"]: e for e in metrics["robustness.auc"]}
    gains = {e["defence"]: e for e in metrics["robustness.auc_difference"] if e["against"] == "none"}
    overhead = {e["defence"]: e for e in metrics.get("overhead", [])}
    tasks = [key for key in metrics if key.startswith("task.")]
    names = headline(list(areas))
    heuristics = [n for n in areas if n not in names and not n.endswith(":oracle")]
    oracle = [n for n in areas if n.endswith(":oracle")]
    largest = max(e["epsilon"] for e in metrics["robustness.score"])
    header = ["Defence", *(_task_title(t) for t in tasks), "AUC (95\\,\\% CI)", r"$\Delta$AUC", "Throughput"]
    body: list[str] = []
    for group in (names, heuristics, oracle):
        for name in group:
            cells = [tex(label(name))]
            cells += [_clean_and_corrupted(metrics[task], name, largest) for task in tasks]
            cells.append(_with_ci(areas[name]))
            cells.append(_with_ci(gains[name], sign=True) if name in gains else "--")
            cells.append(f"{overhead[name]['relative_throughput']:.2f}" if name in overhead else "--")
            body.append(" & ".join(cells) + r" \\")
        if group:
            body.append(r"\midrule")
    caption = (
        f"Clean value, then the mean over corruption types at $\\epsilon = {largest:g}$ (for perplexity the "
        "geometric mean). AUC is the area under the robustness curve. All defences but guard are blind "
        "unless marked; the best heuristic is picked on one half of the examples and reported on the other."
    )
    return table(header, body[:-1], caption, "tab:main")


def ablation_summary(run_dirs: Sequence[Path]) -> str:
    """One row per run: what it varied and what it measured."""
    header = ["Family", "apply to", "rank", "layers", r"$\lambda_{\mathrm{contr}}$", "types trained",
              "types tested", "seed", "AUC none", "AUC repair", r"$\Delta$AUC (95\,\% CI)",
              "clean loss"]  # fmt: skip
    body = []
    for run_dir in run_dirs:
        row = ablation_row(run_dir)
        cells = [tex(str(row[key])) for key in ("family", "apply_to", "rank", "layers", "lambda_contr")]
        cells += [str(row["train_types"]), tex(str(row["test_types"])), str(row["seed"])]
        cells += [f"{row['auc_none']:.4f}", f"{row['auc']:.4f}", _with_ci(row["gain"], sign=True)]
        cells.append(f"{row['clean_loss']:+.4f}")
        body.append(" & ".join(cells) + r" \\")
    count = len(run_dirs)
    caption = f"Ablations: {count} run{'s' if count != 1 else ''}, each row measured in that run."
    return table(header, body, caption, "tab:ablation")


def ablation_row(run_dir: Path) -> Record:
    """What a run varied (from its resolved configuration) and what it measured (from its records)."""
    config = _config(run_dir)
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
        "rank": repair["rank"] if known is not None and "rank" in known.keys else "--",
        "layers": protected if isinstance(protected, str) else ",".join(map(str, protected)),
        "lambda_contr": config["train"]["lambda_contr"] if learned else "--",
        "train_types": len(types),
        "test_types": tested[0] if len(tested) == 1 else len(tested),
        "seed": config["seed"],
        "auc_none": areas["none"]["value"],
        "auc": areas[family]["value"],
        "gain": gains[family],
        "clean_loss": clean[family]["value"],
    }


def tex(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)


def _config(run_dir: Path) -> Record:
    path = run_dir / "config_resolved.yaml"
    try:
        found: Record = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{path} does not exist: {run_dir} is not a run directory") from None
    return found


def table(header: Sequence[str], body: Sequence[str], caption: str, name: str) -> str:
    """A floating booktabs table."""
    columns = "l" + "r" * (len(header) - 1)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{caption}}}\label{{{name}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(header) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _task_title(key: str) -> str:
    shown = label(key.removeprefix("task."))
    return tex(shown.replace("perplexity", "ppl").replace("accuracy", "acc."))


def _clean_and_corrupted(entries: Sequence[Record], defence: str, epsilon: float) -> str:
    import numpy as np

    own = [e for e in entries if e["defence"] == defence]
    clean = next(e["value"] for e in own if e["epsilon"] == 0)
    worst = [e["value"] for e in own if e["epsilon"] == epsilon]
    if any(value is None for value in worst):
        return f"{clean:.2f} / $\\infty$"
    is_ppl = clean > 1.0 or max(worst) > 1.0
    mean = float(np.exp(np.mean(np.log(worst)))) if is_ppl else float(np.mean(worst))
    return f"{clean:.2f} / {_short(mean)}" if is_ppl else f"{clean:.2f} / {mean:.2f}"


def _short(value: float) -> str:
    """One digit after the point; from 10⁴ on two digits and a power."""
    if value < 1e4:
        return f"{value:.1f}"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"${digits} \\times 10^{{{int(power)}}}$"


def _with_ci(entry: Record, sign: bool = False) -> str:
    form = "{:+.4f}" if sign else "{:.4f}"
    low, high = entry["ci"]
    return f"{form.format(entry['value'])} [{form.format(low)}, {form.format(high)}]"
