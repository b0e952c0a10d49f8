"""What a reader meets: names that explain themselves, one number format, no picture that misleads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.example_runs import CacheConfig, ExampleConfig, cache_run, code_run, joint_run

from homeostat.core.figures import PALETTE
from homeostat.core.rundir import open_run
from homeostat.report import build, names
from homeostat.report.page import SCRIPTS, asset, script
from homeostat.report.sections import repeatability
from skyt.metrics import figures
from skyt.repair.rules import RULES

ROOT = Path(__file__).parents[3] / "src" / "homeostat" / "report"


def blocks(run: Path) -> dict[str, dict[str, Any]]:
    return {str(b.get("id")): b for s in build(run).data["sections"] for b in s["blocks"]}


def demo_run(path: Path) -> Path:
    """A joint run with the demo's answers beside it."""
    joint_run(path)
    said = {
        "clean": ("Paris is the capital.", 1.2, False),
        "corrupted": ("AA her her", 900.0, False),
        "smoothing": ("AA", 500.0, True),
        "guard": ("Paris is the capital.", 1.2, False),
    }
    rows = [
        {
            "question": "What is the capital of France?",
            "type": "bitflipish_sparse",
            "epsilon": 0.02,
            "cache": cache,
            "heuristic": heuristic,
            "perplexity": perplexity,
            "agreement": 1.0,
            "text": text,
        }
        for cache, (text, perplexity, heuristic) in said.items()
    ]
    with open_run(path, command="homeostat joint", config=ExampleConfig()) as run:
        run.write_metrics("demo_metrics", {"demo.cache": rows}, {})
        run.finish()
    return path


def test_the_demo_opens_with_the_clean_the_damaged_and_the_repaired_answer(tmp_path: Path) -> None:
    data = build(demo_run(tmp_path / "run")).data
    first = data["sections"][0]["blocks"][0]
    assert [(state["role"], state["text"]) for state in first["states"]] == [
        ("clean", "Paris is the capital."),
        ("damaged", "AA her her"),
        ("repaired", "Paris is the capital."),
    ]
    assert "Damage changed 1 of 1 answers" in data["verdicts"][0] and "guard 1 of 1" in data["verdicts"][0]


@pytest.mark.parametrize("make", [joint_run, demo_run])
def test_nothing_is_pooled_over_clean_damaged_and_repaired_arms(tmp_path: Path, make: Any) -> None:
    data = build(make(tmp_path / "run")).data
    assert not {"headline", "prompts", "distances"} & {section["id"] for section in data["sections"]}
    assert "headline" in {section["id"] for section in build(code_run(tmp_path / "code")).data["sections"]}


def test_before_and_after_repair_have_the_colours_of_the_runs_own_figures(tmp_path: Path) -> None:
    found = blocks(code_run(tmp_path / "run"))
    for block in (found["prompt-dots"], found["distance-counts"]):
        assert PALETTE[block["looks"][repeatability.BEFORE]] == figures.PRE
        assert PALETTE[block["looks"][repeatability.AFTER]] == figures.POST
    style = asset("report.css").lower()
    for place in (0, 1, 2):  # the palette of pages in the light theme is that of figures
        assert f"--c{place}: {PALETTE[place].lower()};" in style


def test_a_log_of_different_conditions_is_not_drawn_as_a_curve(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", command="x", config=ExampleConfig()) as run:
        for step in range(6):
            run.log("train").append(step, loss_total=1.0 / (1 + step))
            run.log("eval").append(step, task=("sst2", "needle")[step % 2], score=step / 7)
    found = blocks(tmp_path / "run")
    assert "log-train" in found and "log-eval" not in found


def test_technical_names_have_readable_ones_with_an_explanation() -> None:
    terms = names.page_terms()
    for technical, readable in {
        "none": "no defence",
        "best_heuristic": "best heuristic",
        "bitflipish_sparse": "sparse bit flips",
        "R_anchor": "repeatability to the canon",
        "smoothing:oracle": "smoothing (told the mask)",
        "epsilon": "severity (epsilon)",
    }.items():
        assert terms[technical][0] == names.label(technical) == readable
        assert terms[technical][1].endswith(".")
    assert names.label("a name nobody knows") == "a name nobody knows"
    assert json.dumps(terms["guard"][1]) in script()


def test_every_name_of_a_defence_in_a_cache_run_is_known(tmp_path: Path) -> None:
    data = build(cache_run(tmp_path / "run")).data
    chart = next(b for s in data["sections"] for b in s["blocks"] if b.get("id") == "robustness")
    for panel in chart["panels"]:
        assert all(line["name"] in names.page_terms() for line in panel["series"])


def test_every_rewriting_rule_is_explained_to_readers_of_a_report() -> None:
    every = [rule.name for rule in RULES]
    told = names.explanations(every)
    assert sorted(told) == sorted(set(every)) and all(text.endswith(".") for text in told.values())
    assert names.explanations(["no-such-rule"]) == {} and names.explanations([]) == {}


def test_the_rules_of_a_sample_travel_with_it(tmp_path: Path) -> None:
    from homeostat.report.reading import RunFiles
    from homeostat.report.sections.samples import sample_data

    run = code_run(tmp_path / "run")
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    lines[1]["repair_steps"] = [RULES[0].name]
    (run / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(sample_data(RunFiles(run))["explanations"]) == [RULES[0].name]


def test_a_failed_run_says_why_at_the_top(tmp_path: Path) -> None:
    run = code_run(tmp_path / "run")
    record = json.loads((run / "run_record.json").read_text())
    assert build(run).data["error"] is None
    (run / "run_record.json").write_text(
        json.dumps({**record, "status": "failed", "error": "no such model: x"})
    )
    data = build(run).data
    assert (data["status"], data["error"]) == ("failed", "no such model: x")


def test_a_page_without_pictures_and_samples_is_small() -> None:
    """What every page carries: well under the 1.5 MB that a report may have."""
    assert len(script().encode()) + len(asset("report.css").encode()) < 500_000


def test_the_bundle_is_what_its_recipe_names_and_keeps_the_licences() -> None:
    recipe = json.loads((ROOT / "vendor" / "package.json").read_text())
    bundle, licences = asset("vendor.js"), asset("vendor-licences.txt")
    for package, version in recipe["dependencies"].items():
        assert re.search(rf"^{re.escape(package)} {re.escape(version)}: .+", licences, re.MULTILINE), package
    assert "Permission to use, copy, modify" in bundle, "the notices travel with the code"
    assert "</script" not in bundle and "<!--" not in bundle
    assert not re.search(r"\beval\(|new Function\(", bundle), "the page's policy forbids both"
    exported = re.findall(
        r"\w+", " ".join(re.findall(r"export \{([^}]*)\}", (ROOT / "vendor/entry.js").read_text()))
    )
    own = "".join(asset(f"{name}.js") for name in SCRIPTS if name != "vendor")
    assert sorted(exported) == sorted(set(re.findall(r"\bvendor\.(\w+)", own))), (
        "bundled and used are the same"
    )


def test_a_run_that_is_going_on_opens_with_what_happened_and_names_the_rest_once(tmp_path: Path) -> None:
    config = CacheConfig(repair={"family": "A"})
    with open_run(tmp_path / "run", command="homeostat cache run", config=config) as run:
        run.log("train").append(0, loss_total=1.0)
        sections = build(tmp_path / "run").data["sections"]
    assert [section["id"] for section in sections] == ["logs", "run", "to-come"]
    assert sections[-1]["blocks"][0]["text"] == "Result, Stability, Figures, Tables."
    assert "headline" in [
        section["id"] for section in build(tmp_path / "run").data["sections"]
    ]  # interrupted


def test_a_repair_that_is_worse_than_none_is_called_so(tmp_path: Path) -> None:
    run = joint_run(tmp_path / "run")
    assert "worse" not in build(run).data["verdicts"][1]
    path = run / "metrics" / "joint_metrics.json"
    record = json.loads(path.read_text())
    for arm in record["metrics"]["joint.arms"]:
        arm["oracle_pass"]["estimate"] = 0.05 if arm["defence"] == "G" else 0.1
    path.write_text(json.dumps(record))
    assert build(run).data["verdicts"][1].endswith("G calibrated 5% (worse than none).")
