"""Runs of skyt: repeatability of generated code, before and after repair."""

from __future__ import annotations

from collections.abc import Iterator

from homeostat.core.records import Record
from homeostat.report.blocks import Block, missing, section
from homeostat.report.names import label
from homeostat.report.reading import RunFiles
from homeostat.report.sections import repeatability
from homeostat.report.sections.samples import ELEMENT, SAMPLES
from homeostat.report.sections.system import System

METRICS = "repeatability_metrics"
CAPTIONS = {
    "pre_vs_post_overlay.png": "Distances before and after repair",
    "violin_pre.png": "Distances before repair",
    "violin_post.png": "Distances after repair",
    "paired_r_anchor.png": "Repeatability to the canon, before and after repair",
    "paired_p_tau.png": "Share close to the canon, before and after repair",
}
SHOWN = 5  # weak contracts that are named
ARMS = "joint_metrics"  # of a run whose samples come from several arms


def is_code(files: RunFiles) -> bool:
    return (files.path / SAMPLES).exists() or METRICS in files.metric_names()


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
    if len(values) < 2:
        return None
    return {"label": "repeatability to the canon, by prompt", "values": values, "bars": True, "top": 1.0}


def sections(files: RunFiles) -> Iterator[Block]:
    found = files.metrics(METRICS)
    if found is None:
        how = f"homeostat code metrics {files.path}"
        absent = missing("the repeatability metrics. Compute them with", how)
        yield section("headline", "Repeatability", "", [absent])
    else:
        arms = ARMS in files.metric_names()
        if not arms:  # a figure over clean, damaged and repaired arms together says nothing
            yield repeatability.headline(found)
            yield repeatability.prompts(found)
        cells = found.get("skyt.cells") or []
        if len(cells) > len(found.get("skyt.prompts") or []):
            yield repeatability.cells(cells, arms=arms)
        if not arms:
            yield repeatability.distances(files)
    if (files.path / SAMPLES).exists():
        lead = "Open a sample to see what repair changed: raw, repaired and canon side by side."
        yield section("samples", "Samples", lead, [{"kind": "samples", "id": "browser", "data": ELEMENT}])
    else:
        yield section("samples", "Samples", "", [missing("samples.jsonl, the record of each sample")])


SYSTEM = System(
    name="code",
    title="code run",
    claims=(METRICS,),
    is_here=is_code,
    sections=sections,
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions=CAPTIONS,
)
