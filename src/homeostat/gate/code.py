"""The gate for runs of skyt: repeatability and compliance of generated code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError, nearest
from homeostat.gate.checks import Check, at_least, at_most, finished_run
from homeostat.report.reading import RunFiles

EVIDENCE = ("identical", "rewritten", "equivalent")


@dataclass(frozen=True)
class CodeBounds:
    """What a run must keep. A bound that is None is not checked."""

    min_r_anchor: float | None = None
    min_r_raw: float | None = None
    min_p_tau: float | None = None
    min_compliant: float | None = None
    min_rescue_rate: float | None = None
    max_mu_post: float | None = None
    evidence: str | None = None
    max_drop: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and not 0.0 <= value <= 1.0:
                option = "--" + name.replace("_", "-")
                raise UserError(f"{option} {value}: these figures lie between 0 and 1, so the bound must too")
        if self.evidence is not None and self.evidence not in EVIDENCE:
            raise UserError(f"--evidence {self.evidence!r}: {nearest(self.evidence, EVIDENCE)}")


def code_checks(
    run_dir: Path,
    bounds: CodeBounds,
    *,
    per_prompt: bool = False,
    confident: bool = False,
    baseline: Path | None = None,
) -> list[Check]:
    """Compare the run with its bounds, over all samples and, if wanted, prompt by prompt."""
    if (baseline is None) != (bounds.max_drop is None):
        raise UserError("--baseline RUN_DIR and --max-drop X belong together: give both or neither")
    subjects = _subjects(finished_run(run_dir), per_prompt)
    checks = [c for name, figures in subjects.items() for c in _absolute(name, figures, bounds, confident)]
    if baseline is not None and bounds.max_drop is not None:
        checks += _drift(subjects, _subjects(finished_run(baseline), per_prompt), bounds, baseline)
    return checks


def _subjects(files: RunFiles, per_prompt: bool) -> dict[str, dict[str, Any]]:
    metrics = files.metrics("repeatability_metrics")
    if metrics is None or not isinstance(metrics.get("skyt.overall"), dict):
        raise UserError(
            f"{files.path} has no repeatability metrics: run `homeostat code metrics {files.path}`"
        )
    found = {"all prompts": metrics["skyt.overall"]}
    if per_prompt:
        found |= {str(p["prompt_id"]): p for p in metrics.get("skyt.prompts") or []}
    return found


def _absolute(
    subject: str, figures: Mapping[str, Any], bounds: CodeBounds, confident: bool
) -> Iterator[Check]:
    lower = {
        "R_raw": bounds.min_r_raw,
        "P_tau_post": bounds.min_p_tau,
        "compliant_post": bounds.min_compliant,
        "rescue_rate": bounds.min_rescue_rate,
    }
    if bounds.evidence is None:
        lower = {"R_anchor": bounds.min_r_anchor, **lower}
    elif bounds.min_r_anchor is not None:
        shares = {f"R_anchor[{level}]": share for level, share in (figures.get("r_anchor") or {}).items()}
        name = f"R_anchor[{bounds.evidence}]"
        yield at_least(subject, name, _figure(shares, name), bounds.min_r_anchor)
    for metric, limit in lower.items():
        if limit is not None:
            value, judged = _judged(figures, metric, "low", confident)
            yield at_least(subject, metric, value, limit, judged)
    if bounds.max_mu_post is not None:
        value, judged = _judged(figures, "mu_post", "high", confident)
        yield at_most(subject, "mu_post", value, bounds.max_mu_post, judged)


def _drift(
    now: Mapping[str, dict[str, Any]], then: Mapping[str, dict[str, Any]], bounds: CodeBounds, baseline: Path
) -> Iterator[Check]:
    """No share may fall, and no distance rise, by more than `max_drop` against the baseline."""
    drop = bounds.max_drop or 0.0
    for subject, figures in now.items():
        if subject not in then:
            raise UserError(f"the baseline {baseline} has no prompt {subject!r}; {nearest(subject, then)}")
        for metric in ("R_anchor", "compliant_post"):
            limit = _figure(then[subject], metric) - drop
            yield at_least(subject, f"{metric} against the baseline", _figure(figures, metric), limit)
        limit = _figure(then[subject], "mu_post") + drop
        yield at_most(subject, "mu_post against the baseline", _figure(figures, "mu_post"), limit)


def _judged(figures: Mapping[str, Any], metric: str, end: str, confident: bool) -> tuple[float, str]:
    """The estimate, or the unfavourable end of its interval where the user wants to be sure."""
    if not confident:
        return _figure(figures, metric), "estimate"
    interval = (figures.get("intervals") or {}).get(metric)
    if not interval:
        raise UserError(
            f"--confident: the run has no interval for {metric}; leave that bound or --confident out"
        )
    return float(interval[end]), f"{interval.get('level', 0.95):.0%} interval's {end} end"


def _figure(figures: Mapping[str, Any], metric: str) -> float:
    value = figures.get(metric)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UserError(f"the run has no figure {metric!r}; {nearest(metric, figures)}")
    return float(value)
