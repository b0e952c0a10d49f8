"""Runs of skyt: repeatability of generated code, before and after repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from homeostat.core.records import Record
from homeostat.report.blocks import Block, missing
from homeostat.report.names import label
from homeostat.report.reading import RunFiles
from homeostat.report.sections import repeatability
from homeostat.report.sections.samples import ELEMENT, SAMPLES
from homeostat.report.sections.system import Section, System

METRICS = "repeatability_metrics"
SHOWN = 5  # weak contracts that are named
ARMS = "joint_metrics"  # of a run whose samples come from several arms


def overall(files: RunFiles) -> Record | None:
    found = (files.metrics(METRICS) or {}).get("skyt.overall")
    return found if isinstance(found, dict) else None


def verdicts(files: RunFiles) -> Iterator[str]:
    """The result in a sentence or two."""
    found = overall(files)
    if found is None or not found.get("N"):
        return
    after, before = found.get("R_anchor"), found.get("R_anchor_pre_measured")
    if after is None or before is None:
        return
    span = repeatability.span(found, "R_anchor")
    yield (
        f"Of {found['N']:,} generated programs, {before:.1%} matched their prompt's canon as they came and "
        f"{after:.1%}{span} match it after repair; the mean distance to the canon went from "
        f"{found.get('mu_pre', 0):.3f} to {found.get('mu_post', 0):.3f}."
    )
    worst = [p for p in (files.metrics(METRICS) or {}).get("skyt.prompts") or [] if "R_anchor" in p]
    if len(worst) > 1:
        low = min(worst, key=lambda p: p["R_anchor"])
        yield f"Least repeatable: {low['prompt_id']}, where {low['R_anchor']:.1%} reach the canon."
    weak = files.settings(METRICS).get("weak_contracts") or {}
    if weak:
        named = ", ".join(f"{name} ({why})" for name, why in sorted(weak.items())[:SHOWN])
        more = f" and {len(weak) - SHOWN} more" if len(weak) > SHOWN else ""
        yield f"Weak contracts, which accept programs that they should not: {named}{more}."


def key_figures(files: RunFiles) -> list[Block]:
    found = overall(files)
    if found is None or ARMS in files.metric_names():
        return []
    names = ("R_anchor", "R_raw", "mu_post", "rescue_rate", "compliant_post", "N")
    return [repeatability.figure_of(found, name, label(name)) for name in names if name in found]


def sparkline(files: RunFiles) -> Block | None:
    prompts = (files.metrics(METRICS) or {}).get("skyt.prompts") or []
    values = [p.get("R_anchor") for p in prompts]
    return {"label": "repeatability to the canon, by prompt", "values": values, "bars": True, "top": 1.0}


def _whole(blocks_of: Callable[[RunFiles, Record], Iterable[Block]]) -> Callable[..., Iterable[Block]]:
    """Not in a run of several arms: a figure over clean, damaged and repaired ones together says nothing."""
    return lambda files, found: () if ARMS in files.metric_names() else blocks_of(files, found)


def _by(source: str) -> Callable[[RunFiles, Record], Iterable[Block]]:
    """Figures of each cell, where a run has more than one for a prompt."""

    def cells(files: RunFiles, found: Record) -> Iterable[Block]:
        here = "arm" if ARMS in files.metric_names() else "model"
        rows = found.get("skyt.cells") or []
        several = len(rows) > len(found.get("skyt.prompts") or [])
        return repeatability.cells(rows, source) if several and source == here else ()

    return cells


def _samples(files: RunFiles, found: Record) -> Iterator[Block]:
    if (files.path / SAMPLES).exists():
        yield {"kind": "samples", "id": "browser", "data": ELEMENT}
    else:
        yield missing("samples.jsonl, the record of each sample")


SYSTEM = System(
    name="code",
    title="code run",
    sections=(
        Section(
            "headline",
            "Repeatability",
            _whole(repeatability.headline),
            "Each prompt has one fixed program, its canon. Every sample is measured against it.",
            METRICS,
            ("the repeatability metrics. Compute them with", "homeostat code metrics {run}"),
        ),
        Section("prompts", "By prompt", _whole(repeatability.prompts), needs=METRICS),
        Section("cells", "By model and temperature", _by("model"), needs=METRICS),
        Section("cells", "By prompt and arm", _by("arm"), needs=METRICS),
        Section("distances", "Distances", _whole(repeatability.distances), needs=METRICS),
        Section(
            "samples",
            "Samples",
            _samples,
            "Open a sample to see what repair changed: raw, repaired and canon side by side.",
        ),
    ),
    known=lambda files: (files.path / SAMPLES).exists(),
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions={
        "pre_vs_post_overlay.png": "Distances before and after repair",
        "violin_pre.png": "Distances before repair",
        "violin_post.png": "Distances after repair",
        "paired_r_anchor.png": "Repeatability to the canon, before and after repair",
        "paired_p_tau.png": "Share close to the canon, before and after repair",
    },
)
