"""The joint experiment: code written from a damaged cache, by severity and defence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from homeostat.core.records import Record
from homeostat.report import blocks
from homeostat.report.blocks import Block, Digits, Point
from homeostat.report.names import colours, label
from homeostat.report.reading import RunFiles
from homeostat.report.sections.entries import NONE
from homeostat.report.sections.system import Field, Section, System, percent, records, rows_of, spread

METRICS = "joint_metrics"
_MEASURES: dict[str, tuple[str, str, Digits]] = {
    "oracle_pass": ("correct programs", "share of programs that the oracle accepts", "%"),
    "r_raw": ("raw repeatability", "share of the commonest raw output", "%"),
    "r_anchor": ("repeatability to the canon", "share equal to the canon after repair of the code", "%"),
    "mu_post": ("mean distance after repair", "to the canon, after repair of the code: lower is better", 3),
}


def verdicts(files: RunFiles) -> Iterator[str]:
    """What damage costs, and what each defence gives back at the worst severity."""
    clean, damaged = _arms(files)
    if clean is None or not damaged:
        return
    worst = max(arm["epsilon"] for arm in damaged)
    there = {_name(arm): arm for arm in damaged if arm["epsilon"] == worst}
    if NONE in there:
        yield (
            f"From a clean cache {_share(clean, 'oracle_pass')} of the programs are correct and "
            f"{_share(clean, 'r_anchor')} reach the canon; damage of severity {worst:g} leaves "
            f"{_share(there[NONE], 'oracle_pass')} and {_share(there[NONE], 'r_anchor')}."
        )
    rivals = {name: arm["oracle_pass"]["estimate"] for name, arm in there.items() if name != NONE}
    if rivals:
        bare = there[NONE]["oracle_pass"]["estimate"] if NONE in there else 0.0
        ordered = sorted(rivals, key=rivals.__getitem__, reverse=True)
        told = [f"{label(n)} {rivals[n]:.0%}{' (worse than none)' * (rivals[n] < bare)}" for n in ordered]
        yield f"Correct programs after each repair of that damage: {', '.join(told)}."


def key_figures(files: RunFiles) -> list[Block]:
    clean, damaged = _arms(files)
    look = {"name": "oracle_pass", "better": "up"}
    arms = ([clean] if clean else []) + damaged
    return [percent(f"correct, {_words(arm)}", arm.get("oracle_pass"), **look) for arm in arms]


def sparkline(files: RunFiles) -> Block | None:
    """Programs that pass as damage grows, without a defence."""
    clean, damaged = _arms(files)
    arms = ([clean] if clean else []) + [arm for arm in damaged if _name(arm) == NONE]
    values = [(arm.get("oracle_pass") or {}).get("estimate") for arm in arms]
    return {"label": "pass rate against epsilon, no defence", "values": values, "bars": False, "top": 1.0}


def _blocks(files: RunFiles, metrics: Record) -> Iterator[Block]:
    clean, damaged = _arms(files)
    if clean is None:
        return
    yield blocks.chart(
        "joint-curves",
        "Against the severity of the damage",
        [_panel(key, clean, damaged) for key in _MEASURES],
        x="severity (epsilon)",
        y="share of samples",
        y_limits=(0.0, 1.0),
        note="Severity 0 is the clean arm, the same for every defence. Bars and bands are 95 % intervals.",
        looks=colours(),
    )
    yield records("arms", "Every arm", _FIELDS, [clean, *damaged])
    yield blocks.prose("In the samples below, the column of models names the arm: severity and defence.")


def _panel(key: str, clean: Record, damaged: list[Record]) -> Block:
    """One curve for each defence; all begin at the clean arm."""
    lines: dict[str, list[Point]] = {}
    for arm in damaged:
        lines.setdefault(_name(arm), [_point(clean, key)]).append(_point(arm, key))
    title, _, digits = _MEASURES[key]
    curves = [blocks.series(name, points) for name, points in lines.items()]
    return blocks.panel(title, curves, y_label=None if digits == "%" else "distance", digits=digits)


def _arms(files: RunFiles) -> tuple[Record | None, list[Record]]:
    arms = rows_of(files.metrics(METRICS), "joint.arms")
    clean = next((arm for arm in arms if arm.get("epsilon") == 0), None)
    return clean, [arm for arm in arms if arm is not clean]


def _name(arm: Record) -> str:
    return PurePath(str(arm.get("defence"))).name


def _words(arm: Record) -> str:
    """`G @ 0.32` in words."""
    if arm.get("epsilon") == 0:
        return "clean"
    return f"{label(_name(arm))} at {arm.get('epsilon', 0):g}"


def _point(arm: Record, key: str) -> Point:
    return (arm.get("epsilon", 0.0), *spread(arm.get(key)))


def _share(arm: Record, key: str) -> str:
    value = (arm.get(key) or {}).get("estimate")
    return "an unknown share" if value is None else f"{value:.1%}"


_FIELDS = (
    Field("epsilon", "epsilon", 2),
    Field("defence", lambda arm: "clean" if arm.get("epsilon") == 0 else _name(arm)),
    Field("samples", "n"),
    *(Field(title, key, digits, help) for key, (title, help, digits) in _MEASURES.items()),
)
SYSTEM = System(
    name="joint",
    title="joint run",
    sections=(
        Section(
            "joint",
            "State and output",
            _blocks,
            "What a damaged cache costs in repeatability and correctness, and what each repair gives back.",
            METRICS,
        ),
    ),
    verdicts=verdicts,
    key_figures=key_figures,
    sparkline=sparkline,
    captions={"joint.png": "Repeatability and correctness against the severity of damage"},
)
