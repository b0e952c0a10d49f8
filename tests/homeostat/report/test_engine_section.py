"""A campaign in a serving engine as a section of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachemedicpp.engines.campaign.config import CampaignConfig
from cachemedicpp.engines.campaign.figure import draw
from cachemedicpp.engines.campaign.summary import METRICS, summarise
from cachemedicpp.engines.campaign.table import terminal_table
from homeostat.core.rundir import open_run
from homeostat.report.build import build

FAULT = {"kind": "bit", "epsilon": 0.001, "layers": 1.0}


def row(guard: bool, fault: dict[str, Any] | None, tokens: list[int], bad: int = 0) -> dict[str, Any]:
    counts = {"bad": bad, "recomputed": bad, "verified": 8, "unknown": 0} if guard else {}
    shared = {"dtype": "float32", "group": 0, "turn": 0, "prompt": 0, "cached": 64, "seconds": 1.0}
    hit = {"blocks": [3] if fault else [], "numbers": 9 if fault else 0}
    return {
        **shared,
        **hit,
        "guard": guard,
        "fault": fault,
        "tokens": tokens,
        "margins": [0.5, 0.25],
        "counts": counts,
    }


def campaign(with_guard: list[int]) -> list[dict[str, Any]]:
    return [
        row(False, None, [1, 2]),
        row(True, None, [1, 2]),
        row(False, FAULT, [1, 3]),
        row(True, FAULT, with_guard, bad=1),
    ]


def test_answers_are_compared_with_the_undamaged_ones() -> None:
    (arm,) = summarise(campaign([1, 2]))["engine.faults"]
    assert arm["changed_without_guard"]["count"] == 1 and arm["changed_with_guard"]["count"] == 0
    assert arm["blocks_found"] == arm["blocks_damaged"] == 1
    (arm,) = summarise(campaign([1, 4]))["engine.faults"]
    assert arm["changed_with_guard"]["count"] == 1 and arm["margins_of_changed"] == [0.25]


def test_the_report_says_what_changed_and_how_often_the_guard_was_wrong(tmp_path: Path) -> None:
    metrics = summarise(campaign([1, 2]))
    config = CampaignConfig.model_validate({"faults": [{"kind": "bit"}]})
    with open_run(tmp_path / "run", command="homeostat engine campaign", config=config) as run:
        run.write_metrics(METRICS, metrics, {})
        assert all(path.exists() for path in draw(metrics, run.figures))
        run.finish()
    data = build(tmp_path / "run").data
    assert not data["problems"]
    text = " ".join(data["verdicts"])
    assert "1 changed without guard, 0 with it" in text and "0 false alarms in 8" in text
    assert "engine" in [section["id"] for section in data["sections"]]
    assert terminal_table(metrics).row_count == 2
