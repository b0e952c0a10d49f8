"""The joint experiment: code written from a damaged cache, by severity and defence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Point, column, figure, interval, section
from homeostat.report.reading import RunFiles
from homeostat.report.sections.entries import LOOKS, NONE
from homeostat.report.sections.system import System

METRICS = "joint_metrics"
CAPTIONS = {"joint.png": "Repeatability and correctness against the severity of damage"}
_MEASURES = {
    "oracle_pass": ("passes the oracle", "share of programs that are right"),
    "r_raw": ("R_raw", "share of the commonest raw output"),
    "r_anchor": ("R_anchor", "share equal to the canon after skyt's repair"),
    "mu_post": ("mean distance", "to the canon, after skyt's repair: lower is better"),
}


def is_joint(files: RunFiles) -> bool:
    return METRICS in files.metric_names()


def verdicts(files: RunFiles) -> Iterator[str]:
    """What damage costs, and what the best defence gives back at the worst severity."""
    clean, damaged = _arms(files)
    if clean is None or not damaged:
        return
    worst = max(arm["epsilon"] for arm in damaged)
    there = {_name(arm): arm for arm in damaged if arm["epsilon"] == worst}
    if NONE in there:
        yield (
            f"From a clean cache {_share(clean, 'oracle_pass')} of the programs pass the oracle and "
            f"{_share(clean, 'r_anchor')} reach the canon; damage at epsilon {worst:g} leaves "
            f"{_share(there[NONE], 'oracle_pass')} and {_share(there[NONE], 'r_anchor')}."
        )
    rivals = {name: arm for name, arm in there.items() if name != NONE}
    if rivals:
        passed = {name: arm["oracle_pass"]["estimate"] for name, arm in rivals.items()}
        best, least = max(passed, key=passed.__getitem__), min(passed.values())
        text = f"Of the defences there, {best} keeps most: {passed[best]:.0%} pass"
        last = ", ".join(name for name in passed if passed[name] == least)
        yield text + (f"; least: {last} ({least:.0%})." if least < passed[best] else ".")


def key_figures(files: RunFiles) -> list[Block]:
    clean, damaged = _arms(files)
    arms = ([clean] if clean else []) + damaged
    return [_figure(f"pass, {arm['label']}", arm.get("oracle_pass")) for arm in arms]


def sparkline(files: RunFiles) -> Block | None:
    """Programs that pass as damage grows, without a defence."""
    clean, damaged = _arms(files)
    arms = ([clean] if clean else []) + [arm for arm in damaged if _name(arm) == NONE]
    values = [(arm.get("oracle_pass") or {}).get("estimate") for arm in arms]
    if len(values) < 2:
        return None
    return {"label": "pass rate against epsilon, no defence", "values": values, "bars": False, "top": 1.0}


def sections(files: RunFiles) -> Iterator[Block]:
    clean, damaged = _arms(files)
    if clean is None:
        return
    panels = []
    for key, (title, _) in _MEASURES.items():
        start = _point(clean, key)
        lines: dict[str, list[Point]] = {}
        for arm in damaged:
            lines.setdefault(_name(arm), [start]).append(_point(arm, key))
        curves = [blocks.series(name, points) for name, points in lines.items()]
        panels.append(blocks.panel(title, curves, y_label="distance" if key == "mu_post" else None))
    chart = blocks.chart(
        "joint-curves",
        "Against the severity of the damage",
        panels,
        x="epsilon",
        y="share of samples",
        y_limits=(0.0, 1.0),
        note="Epsilon 0 is the clean arm, the same for every defence. Bands are 95 % intervals.",
        looks=LOOKS,
    )
    columns = [column("epsilon"), column("defence"), column("samples")]
    columns += [column(title, digits=3, help=help) for title, help in _MEASURES.values()]
    rows = [
        [arm.get("epsilon"), "clean" if arm is clean else _name(arm), arm.get("n")]
        + [_cell(arm, key) for key in _MEASURES]
        for arm in [clean, *damaged]
    ]
    lead = "What a damaged cache costs in repeatability and correctness, and what each repair gives back."
    below = "The sections below take all arms together; what they call a model is an arm of this experiment."
    table = blocks.table("arms", "Every arm", columns, rows)
    yield section("joint", "State and output", lead, [chart, table, blocks.prose(below)])


def _arms(files: RunFiles) -> tuple[Record | None, list[Record]]:
    rows = (files.metrics(METRICS) or {}).get("joint.arms")
    arms = [arm for arm in rows if isinstance(arm, dict)] if isinstance(rows, list) else []
    clean = next((arm for arm in arms if arm.get("epsilon") == 0), None)
    return clean, [arm for arm in arms if arm is not clean]


def _name(arm: Record) -> str:
    return PurePath(str(arm.get("defence"))).name


def _point(arm: Record, key: str) -> Point:
    found = arm.get(key) or {}
    return (arm.get("epsilon", 0.0), found.get("estimate"), found.get("low"), found.get("high"))


def _cell(arm: Record, key: str) -> Any:
    return interval(*_point(arm, key)[1:])


def _figure(label: str, found: Any) -> Block:
    found = found if isinstance(found, dict) else {}
    return figure(
        label,
        found.get("estimate"),
        low=found.get("low"),
        high=found.get("high"),
        level=found.get("level"),
        digits=3,
    )


def _share(arm: Record, key: str) -> str:
    value = (arm.get(key) or {}).get("estimate")
    return "an unknown share" if value is None else f"{value:.0%}"


SYSTEM = System(
    name="joint",
    title="joint run",
    claims=(METRICS,),
    is_here=is_joint,
    sections=sections,
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions=CAPTIONS,
)
