"""The gate for runs of cachemedicpp: robustness, clean regression, stability and speed of one defence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError, nearest
from homeostat.core.records import Record
from homeostat.gate.checks import Bound, Check, Figure, Limits, check_baseline, compare, finished_run, number
from homeostat.report.reading import RunFiles
from homeostat.report.sections.system import rows_of, spread

_AUC, _GAIN, _OVER = "AUC", "AUC gain over no defence", "AUC gain over the best heuristic"
_REGRESSION, _SPEED = "clean regression", "throughput relative to no defence"
_RATIO = "sensitivity ratio at delta 1"
BOUNDS = (
    Bound("min_auc", _AUC, "Lowest area under the robustness curve."),
    Bound("min_auc_gain", _GAIN, "Lowest gain in area over no defence."),
    Bound("min_gain_over_heuristic", _OVER, "Lowest gain in area over the best heuristic."),
    Bound("max_clean_regression", _REGRESSION, "Largest loss of score where nothing is wrong."),
    Bound("max_sensitivity_ratio", _RATIO, "Largest drift of logits at delta 1 relative to no defence."),
    Bound("min_throughput", _SPEED, "Lowest throughput relative to no defence."),
)
# Where each figure stands: the list of records, and what else the record says.
_PLACES: dict[str, tuple[str, Record]] = {
    _AUC: ("robustness.auc", {}),
    _GAIN: ("robustness.auc_difference", {"against": "none"}),
    _OVER: ("robustness.auc_difference", {"against": "best_heuristic"}),
    _REGRESSION: ("clean_regression", {}),
}


def cache_checks(
    run_dir: Path,
    limits: Limits,
    *,
    defence: str | None = None,
    confident: bool = False,
    baseline: Path | None = None,
    max_drop: float | None = None,
) -> list[Check]:
    """Compare one defence of the run with its bounds."""
    check_baseline(baseline, max_drop)
    files = finished_run(run_dir)
    name = defence or str((files.config.get("repair") or {}).get("family"))
    figures = _Figures(files, name)
    checks = list(compare(name, figures, BOUNDS, limits, confident))
    if baseline is not None and max_drop is not None:
        before = _Figures(finished_run(baseline), name)
        limit = before(_AUC).value - max_drop
        checks.append(Check(name, "AUC against the baseline", figures(_AUC).value, "min", limit))
    return checks


class _Figures:
    """The recorded figures of one defence of a run."""

    def __init__(self, files: RunFiles, defence: str) -> None:
        self._files, self._defence = files, defence
        metrics = files.metrics("task_metrics")
        if metrics is None:
            raise UserError(f"{files.path} has no metrics/task_metrics.json: evaluate the run first")
        self._metrics = metrics
        known = [str(row.get("defence")) for row in rows_of(metrics, "robustness.auc")]
        if defence not in known:
            hint = f"{nearest(defence, known)}: choose one with --defence"
            raise UserError(f"{files.path} has no defence {defence!r}; {hint}")

    def __call__(self, metric: str) -> Figure:
        if metric == _SPEED:
            problem = (
                f"the run has no overhead of {self._defence!r}: evaluate with eval.measure_overhead: true"
            )
            speed = self._row("overhead", {}).get("relative_throughput")
            return Figure(number(speed, problem), exact=True)
        if metric == _RATIO:
            return Figure(self._sensitivity_ratio(), exact=True)
        value, low, high = spread(self._row(*_PLACES[metric]))
        return Figure(number(value, f"the run has no figure for {metric}"), low, high)

    def _row(self, key: str, wanted: Record) -> Record:
        for row in rows_of(self._metrics, key):
            if {"defence": self._defence, **wanted}.items() <= row.items():
                return row
        return {}

    def _sensitivity_ratio(self) -> float:
        """Drift of the logits at delta 1 with the defence, over the drift without any."""
        metrics = self._files.metrics("stability_metrics") or {}
        curves: dict[str, Any] = (metrics.get("stability.settings") or {}).get("curves") or {}
        names = [self._defence, *(curve for curve, whose in curves.items() if whose == self._defence)]
        for point in metrics.get("stability.logit_sensitivity") or []:
            values = point.get("value") or {}
            curve = next((name for name in names if name in values), None)
            if point.get("delta_norm") == 1.0 and curve and values.get("baseline"):
                return float(values[curve]) / float(values["baseline"])
        raise UserError(
            f"the run has no logit sensitivity of {self._defence!r} at delta 1: measure stability first"
        )
