"""The gate for runs of cachemedicpp: robustness, clean regression, stability and speed of one defence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError, nearest
from homeostat.core.records import Record
from homeostat.gate.checks import Check, at_least, at_most, finished_run
from homeostat.report.reading import RunFiles


@dataclass(frozen=True)
class CacheBounds:
    """What a defence must keep. A bound that is None is not checked."""

    min_auc: float | None = None
    min_auc_gain: float | None = None
    min_gain_over_heuristic: float | None = None
    max_clean_regression: float | None = None
    max_sensitivity_ratio: float | None = None
    min_throughput: float | None = None
    max_drop: float | None = None


def cache_checks(
    run_dir: Path,
    bounds: CacheBounds,
    *,
    defence: str | None = None,
    confident: bool = False,
    baseline: Path | None = None,
) -> list[Check]:
    """Compare one defence of the run with its bounds."""
    if (baseline is None) != (bounds.max_drop is None):
        raise UserError("--baseline RUN_DIR and --max-drop X belong together: give both or neither")
    files = finished_run(run_dir)
    metrics = _metrics(files)
    name = defence or str((files.config.get("repair") or {}).get("family"))
    areas = _rows(metrics, "robustness.auc")
    if name not in areas:
        raise UserError(
            f"{run_dir} has no defence {name!r}; {nearest(name, areas)}: choose one with --defence"
        )
    checks = list(_robustness(metrics, name, bounds, confident))
    checks += _speed(metrics, name, bounds)
    if bounds.max_sensitivity_ratio is not None:
        ratio = _sensitivity_ratio(files, name)
        checks.append(at_most(name, "sensitivity ratio at delta 1", ratio, bounds.max_sensitivity_ratio))
    if baseline is not None and bounds.max_drop is not None:
        before = _rows(_metrics(finished_run(baseline)), "robustness.auc")
        if name not in before:
            raise UserError(f"the baseline {baseline} has no defence {name!r}; {nearest(name, before)}")
        limit = _value(before[name], "AUC") - bounds.max_drop
        checks.append(at_least(name, "AUC against the baseline", _value(areas[name], "AUC"), limit))
    return checks


def _robustness(metrics: Record, name: str, bounds: CacheBounds, confident: bool) -> Iterator[Check]:
    gains = {
        (row.get("defence"), row.get("against")): row
        for row in metrics.get("robustness.auc_difference") or []
        if isinstance(row, dict)
    }
    lower: list[tuple[str, Any, float | None]] = [
        ("AUC", _rows(metrics, "robustness.auc").get(name), bounds.min_auc),
        ("AUC gain over no defence", gains.get((name, "none")), bounds.min_auc_gain),
        (
            "AUC gain over the best heuristic",
            gains.get((name, "best_heuristic")),
            bounds.min_gain_over_heuristic,
        ),
    ]
    for label, row, limit in lower:
        if limit is not None:
            value, judged = _judged(row, label, 0, confident)
            yield at_least(name, label, value, limit, judged)
    if bounds.max_clean_regression is not None:
        row = _rows(metrics, "clean_regression").get(name)
        value, judged = _judged(row, "clean regression", 1, confident)
        yield at_most(name, "clean regression", value, bounds.max_clean_regression, judged)


def _speed(metrics: Record, name: str, bounds: CacheBounds) -> Iterator[Check]:
    if bounds.min_throughput is not None:
        row = _rows(metrics, "overhead").get(name) or {}
        speed = row.get("relative_throughput")
        if not isinstance(speed, int | float):
            raise UserError(f"the run has no overhead of {name!r}: evaluate with eval.measure_overhead: true")
        yield at_least(name, "throughput relative to no defence", float(speed), bounds.min_throughput)


def _sensitivity_ratio(files: RunFiles, name: str) -> float:
    """Drift of the logits at delta 1 with the defence, over the drift without any."""
    metrics = files.metrics("stability_metrics") or {}
    settings = metrics.get("stability.settings") or {}
    roles = {role: who for role, who in (settings.get("curves") or {}).items() if isinstance(who, str)}
    for point in metrics.get("stability.logit_sensitivity") or []:
        if point.get("delta_norm") == 1.0:
            values = point.get("value") or {}
            curve = (
                name if name in values else next((role for role, who in roles.items() if who == name), None)
            )
            if curve in values and values.get("baseline"):
                return float(values[curve]) / float(values["baseline"])
    raise UserError(f"the run has no logit sensitivity of {name!r} at delta 1: measure stability first")


def _metrics(files: RunFiles) -> Record:
    metrics = files.metrics("task_metrics")
    if metrics is None:
        raise UserError(f"{files.path} has no metrics/task_metrics.json: evaluate the run first")
    return metrics


def _rows(metrics: Record, key: str) -> dict[str, Record]:
    rows = metrics.get(key)
    return {str(r.get("defence")): r for r in rows if isinstance(r, dict)} if isinstance(rows, list) else {}


def _judged(row: Record | None, label: str, end: int, confident: bool) -> tuple[float, str]:
    """The estimate, or the unfavourable end of its interval where the user wants to be sure."""
    if not confident:
        return _value(row, label), "estimate"
    ci = (row or {}).get("ci")
    if not isinstance(ci, list) or len(ci) != 2 or ci[end] is None:
        raise UserError(
            f"--confident: the run has no interval for {label}; leave that bound or --confident out"
        )
    return float(ci[end]), f"95% interval's {('low', 'high')[end]} end"


def _value(row: Record | None, label: str) -> float:
    value = (row or {}).get("value")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UserError(f"the run has no figure for {label}")
    return float(value)
