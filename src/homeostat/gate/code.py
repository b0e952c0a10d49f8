"""The gate for runs of skyt: repeatability and compliance of generated code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from homeostat.core.errors import UserError, nearest
from homeostat.core.records import Record
from homeostat.gate.checks import Bound, Check, Figure, Limits, check_baseline, compare, finished_run, number
from homeostat.report.reading import RunFiles

METRICS = "repeatability_metrics"
EVIDENCE = ("identical", "rewritten", "equivalent")
BOUNDS = (
    Bound("min_r_anchor", "R_anchor", "Lowest share equal to the canon."),
    Bound("min_r_raw", "R_raw", "Lowest share of the commonest raw output."),
    Bound("min_p_tau", "P_tau_post", "Lowest share within tau after repair."),
    Bound("min_compliant", "compliant_post", "Lowest share that passes the oracle."),
    Bound("min_rescue_rate", "rescue_rate", "Lowest share rescued by repair."),
    Bound("max_mu_post", "mu_post", "Largest mean distance after repair."),
)


def code_checks(
    run_dir: Path,
    limits: Limits,
    *,
    evidence: str | None = None,
    per_prompt: bool = False,
    confident: bool = False,
    baseline: Path | None = None,
    max_drop: float | None = None,
    across_versions: bool = False,
) -> list[Check]:
    """Compare the run with its bounds, over all samples and, if wanted, prompt by prompt."""
    for option, value in {**limits, "max_drop": max_drop}.items():
        if value is not None and not 0.0 <= value <= 1.0:
            name = "--" + option.replace("_", "-")
            raise UserError(f"{name} {value}: these figures lie between 0 and 1, so the bound must too")
    if evidence is not None and evidence not in EVIDENCE:
        raise UserError(f"--evidence {evidence!r}: {nearest(evidence, EVIDENCE)}")
    check_baseline(baseline, max_drop)
    run = finished_run(run_dir)
    _check_canons(run)
    subjects, checks = _subjects(run, per_prompt), list[Check]()
    for name, found in subjects.items():
        checks += compare(name, partial(_figure, found, evidence), _bounds(evidence), limits, confident)
    if baseline is not None and max_drop is not None:
        other = finished_run(baseline)
        if not across_versions:
            _check_comparable(run, other)
        before = _subjects(other, per_prompt)
        for name, found in subjects.items():
            if name not in before:
                raise UserError(f"the baseline {baseline} has no prompt {name!r}; {nearest(name, before)}")
            checks += _drift(name, found, before[name], max_drop)
    return checks


def _bounds(evidence: str | None) -> tuple[Bound, ...]:
    """With `evidence`, the share equal to the canon is counted up to that level."""
    anchor, *others = BOUNDS
    return BOUNDS if evidence is None else (Bound(anchor.option, f"R_anchor[{evidence}]", ""), *others)


def _subjects(files: RunFiles, per_prompt: bool) -> dict[str, Record]:
    metrics = files.metrics(METRICS)
    if metrics is None or not isinstance(metrics.get("skyt.overall"), dict):
        raise UserError(
            f"{files.path} has no repeatability metrics: run `homeostat code metrics {files.path}`"
        )
    prompts = metrics.get("skyt.prompts") or [] if per_prompt else []
    return {"all prompts": metrics["skyt.overall"], **{str(p["prompt_id"]): p for p in prompts}}


def _check_canons(run: RunFiles) -> None:
    """Figures are of the canons that the run has now, or they are stale."""
    for prompt, measured in run.settings(METRICS).get("canons", {}).items():
        canon = run.json(f"canon/{prompt}.json") or {}
        if canon.get("canon_signature") != measured:
            raise UserError(
                f"{run.path}: the canon of {prompt!r} was changed after its figures were measured: run the "
                "command that made the run again, which measures its samples against the new canon"
            )


def _check_comparable(run: RunFiles, baseline: RunFiles) -> None:
    """Figures compare where each prompt has the same versions and the same canon in both runs."""
    now, then = run.settings(METRICS), baseline.settings(METRICS)
    for name in ("versions", "canons"):
        here, there = now.get(name, {}), then.get(name, {})
        for prompt in sorted(here.keys() & there.keys()):
            if here[prompt] != there[prompt]:
                raise UserError(
                    f"{name} of {prompt!r}: {_shown(here[prompt])} here, {_shown(there[prompt])} in the "
                    "baseline, so their figures do not compare; --across-versions compares them anyway"
                )


def _shown(value: str | dict[str, str]) -> str:
    return value[:12] if isinstance(value, str) else ", ".join(value.values())


def _figure(found: Record, evidence: str | None, metric: str) -> Figure:
    if metric == f"R_anchor[{evidence}]":
        return Figure(number((found.get("r_anchor") or {}).get(evidence), _absent(metric, found)), exact=True)
    interval = (found.get("intervals") or {}).get(metric) or {}
    value = number(found.get(metric), _absent(metric, found))
    return Figure(value, interval.get("low"), interval.get("high"))


def _absent(metric: str, found: Record) -> str:
    return f"the run has no figure {metric!r}; {nearest(metric, found)}"


def _drift(subject: str, now: Record, then: Record, drop: float) -> Iterator[Check]:
    """No share may fall, and no distance rise, by more than `drop` against the baseline."""
    for bound in (BOUNDS[0], BOUNDS[3], BOUNDS[5]):
        value, before = (_figure(found, None, bound.metric).value for found in (now, then))
        limit = before - drop if bound.kind == "min" else before + drop
        yield Check(subject, f"{bound.metric} against the baseline", value, bound.kind, limit)
