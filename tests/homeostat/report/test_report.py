"""The report: a self-contained function of the records, honest about what is missing, safe with any text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.example_runs import (
    CANON,
    CacheConfig,
    ExampleConfig,
    cache_run,
    code_run,
    joint_run,
    sample,
)

from homeostat.core.errors import UserError
from homeostat.core.rundir import open_run
from homeostat.core.tables import PaperTable
from homeostat.report import build, write_report
from homeostat.report.build import key_figures, sparkline
from homeostat.report.page import asset, inert_json, packed
from homeostat.report.reading import RunFiles
from homeostat.report.sections.artifacts import tables_section
from homeostat.report.sections.progress import _POINTS, _thinned
from homeostat.report.sections.samples import pack_samples, sample_data
from homeostat.report.status import run_status

ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates too


def unpack(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def blocks(run: Path, kind: str) -> list[dict[str, Any]]:
    return [b for s in build(run).data["sections"] for b in s["blocks"] if b["kind"] == kind]


def block(run: Path, ident: str) -> dict[str, Any]:
    return next(b for s in build(run).data["sections"] for b in s["blocks"] if b.get("id") == ident)


@given(
    st.recursive(ANY_TEXT | st.integers() | st.none(), lambda c: st.lists(c) | st.dictionaries(ANY_TEXT, c))
)
def test_inert_json_keeps_every_text_and_holds_no_markup(value: Any) -> None:
    text = inert_json(value)
    assert json.loads(text) == value
    assert text.isascii() and not set("<>&") & set(text)


@given(ANY_TEXT)
def test_packed_data_keeps_every_text(value: str) -> None:
    assert unpack(packed([value])) == [value]


def test_the_report_is_one_file_whose_policy_allows_its_own_script_and_no_request(tmp_path: Path) -> None:
    text = write_report(code_run(tmp_path / "run")).read_text(encoding="utf-8")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
    code = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]  # type: ignore[index]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    own = text.replace(
        asset("vendor.js"), ""
    )  # licences and messages of the bundled libraries name addresses
    assert len(own) < len(text)
    outside = [u for u in re.findall(r"https?://[^\s\"'<)]+", own) if not u.startswith("http://www.w3.org/")]
    assert not outside and not re.search(r'(src|href)="(?!data:|#)', text)


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    run = code_run(tmp_path / "run")
    first = write_report(run, tmp_path / "a.html").read_bytes()
    assert write_report(run, tmp_path / "b.html").read_bytes() == first


def test_headline_figures_are_the_recorded_ones(tmp_path: Path) -> None:
    run = code_run(tmp_path / "run")
    recorded = json.loads((run / "metrics/repeatability_metrics.json").read_text())["metrics"]["skyt.overall"]
    shown = {f["label"]: f for f in blocks(run, "figures")[0]["items"]}
    main = shown["repeatability to the canon"]
    assert (main["value"], main["before"]) == (recorded["R_anchor"], recorded["R_anchor_pre_measured"])
    assert (main["low"], main["high"]) == tuple(
        recorded["intervals"]["R_anchor"][end] for end in ("low", "high")
    )
    assert shown["samples"]["value"] == recorded["N"] == 8


def test_curves_of_a_cache_run_are_the_recorded_ones(tmp_path: Path) -> None:
    run = cache_run(tmp_path / "run")
    rows = json.loads((run / "metrics/task_metrics.json").read_text())["metrics"]["robustness.score"]
    panel = next(p for p in block(run, "robustness")["panels"] if p["title"] == "all types")
    drawn = {s["name"]: s["points"] for s in panel["series"]}
    for row in rows:
        assert [row["epsilon"], row["value"], *row["ci"]] in drawn[row["defence"]]
    assert sum(len(points) for points in drawn.values()) == len(rows)
    assert "smoothing" in block(run, "robustness")["off"] and "G" not in block(run, "robustness")["off"]


def test_amplification_maps_have_every_layer_and_head(tmp_path: Path) -> None:
    run = cache_run(tmp_path / "run")
    entries = json.loads((run / "metrics/stability_metrics.json").read_text())["metrics"][
        "stability.amplification_map"
    ]
    maps = {m["name"]: m["values"] for m in block(run, "amplification")["maps"]}
    assert all(maps["none"][e["head"]][e["layer"]] == e["before"] for e in entries)


def test_a_run_that_was_interrupted_at_once_shows_every_part_as_missing(tmp_path: Path) -> None:
    with open_run(
        tmp_path / "run", command="homeostat cache run", config=CacheConfig(repair={"family": "G"})
    ):
        pass
    data = build(tmp_path / "run").data
    absent = " ".join(b["what"] for s in data["sections"] for b in s["blocks"] if b["kind"] == "missing")
    for part in ("task_metrics", "stability_metrics", "figA_score_vs_eps.png", "table_main_results.tex"):
        assert part in absent
    assert not [
        b for s in data["sections"] for b in s["blocks"] if b["kind"] in ("chart", "figures", "heatmap")
    ]


def test_damaged_files_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    run = cache_run(tmp_path / "run")
    (run / "metrics/task_metrics.json").write_text("{broken")
    with (run / "logs/train.jsonl").open("a") as log:
        log.write("not json\n")
    data = build(run).data
    assert any(p.startswith("metrics/task_metrics.json") for p in data["problems"])
    assert any(p.startswith("logs/train.jsonl, line 6") for p in data["problems"])
    assert "stability" in [s["id"] for s in data["sections"]] and blocks(run, "heatmap")


def test_metrics_that_no_section_knows_are_shown_all_the_same(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", command="x", config=ExampleConfig()) as run:
        run.write_metrics("novel", {"a.b": 1.5, "rows": [{"arm": "clean", "x": {"y": 2}}]}, {})
    section = next(s for s in build(tmp_path / "run").data["sections"] if s["id"] == "measured")
    assert section["blocks"][0]["rows"] == [["clean", 2]]
    assert section["blocks"][1]["items"] == [["a.b", 1.5]]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(UserError, match="run directory"):
            write_report(path)


def test_each_text_is_packed_once_and_a_long_one_is_cut_with_a_note(tmp_path: Path) -> None:
    samples = [sample(i, "gcd", CANON) for i in range(50)] + [sample(50, "gcd", "x" * 300_000)]
    data = unpack(pack_samples(RunFiles(code_run(tmp_path / "run", samples))))
    assert data["texts"].count(CANON) == 1 and len(data["rows"]) == 51
    longest = max(data["texts"], key=len)
    assert len(longest) < 101_000 and "200,000 more characters" in longest
    assert any("cut at 100,000 characters" in note for note in data["notes"])


def test_samples_beyond_the_limit_are_counted_in_a_note(tmp_path: Path) -> None:
    run = code_run(tmp_path / "run")
    data = sample_data(RunFiles(run), most=3)
    assert len(data["rows"]) == 3 and "first 3 of 8" in data["notes"][0]


def test_five_thousand_different_samples_make_less_than_15_megabytes(tmp_path: Path) -> None:
    filler = "\n".join(f"    # {i} {hashlib.sha256(bytes(i)).hexdigest()}" for i in range(20))
    samples = [
        sample(
            i,
            f"prompt_{i % 12}",
            f"# {hashlib.sha256(str(i).encode()).hexdigest()}\n{CANON}\n{filler}",
            pre=CANON,
        )
        for i in range(5000)
    ]
    path = write_report(code_run(tmp_path / "run", samples))
    assert path.stat().st_size < 15_000_000


def test_status_is_complete_running_or_interrupted(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", command="x", config=ExampleConfig()) as run:
        assert run_status(RunFiles(tmp_path / "run")) == "running"
    assert run_status(RunFiles(tmp_path / "run")) == "interrupted"
    run.finish()
    assert run_status(RunFiles(tmp_path / "run")) == "complete"


def test_a_table_for_a_paper_is_shown_with_its_latex_and_a_damaged_one_is_a_problem(tmp_path: Path) -> None:
    run = cache_run(tmp_path / "run")
    folder = run / "paper" / "tables"
    groups = [[["a_b", "5.1 × 10⁴"]], [["G", "∞"]]]
    PaperTable("table_a_b", "At 95 %, ε", ["Defence", "ΔAUC"], groups).write(folder)
    files = RunFiles(run)
    shown, source = (tables_section(files) or {})["blocks"]
    assert shown["rows"] == [["a_b", "5.1 × 10⁴"], ["G", "∞"]] and shown["note"] == "At 95 %, ε"
    caption, first = r"\caption{At 95\,\%, $\epsilon$}", r"a\_b & 5.1 $\times$ 10$^{4}$ \\"
    for line in (caption, first, "\\midrule\nG & $\\infty$"):
        assert line in source["text"]
    (folder / "table_a_b.json").write_text('{"groups": 3}')
    (only,) = (tables_section(files) or {})["blocks"]
    assert only == {**source, "folded": False} and "table_a_b.json" in files.problems[0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3 * _POINTS))
def test_a_thinned_curve_shows_recorded_points_only_the_last_included(values: list[float]) -> None:
    points = list(enumerate(values))
    shown = [(int(x), y) for x, y, _, _ in _thinned(points)]
    assert set(shown) <= set(points) and shown[-1] == points[-1] and len(shown) <= _POINTS + 1


def test_a_record_that_a_link_places_outside_is_not_read_where_that_is_forbidden(tmp_path: Path) -> None:
    run = code_run(tmp_path / "runs" / "run")
    secret = tmp_path / "secret.jsonl"
    (run / "samples.jsonl").rename(secret)
    (run / "samples.jsonl").symlink_to(secret)
    files = RunFiles(run, inside=tmp_path / "runs")
    assert list(files.lines("samples.jsonl")) == [] and "leads out" in files.problems[0]
    assert len(list(RunFiles(run).lines("samples.jsonl"))) == 8


def test_a_joint_run_shows_its_arms_first_and_then_the_code(tmp_path: Path) -> None:
    run = joint_run(tmp_path / "run")
    data = build(run).data
    assert data["verdicts"][0].startswith("From a clean cache 90.0% of the programs are correct")
    assert data["verdicts"][1] == "Correct programs after each repair of that damage: G calibrated 50%."
    assert [s["id"] for s in data["sections"]][:3] == ["joint", "cells", "samples"]
    panel = block(run, "joint-curves")["panels"][0]
    points = {s["name"]: [p[:2] for p in s["points"]] for s in panel["series"]}
    assert points == {"none": [[0.0, 0.9], [0.3, 0.2], [0.6, 0.1]], "G": [[0.0, 0.9], [0.3, 0.7], [0.6, 0.5]]}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    ("repeatability_metrics", ("skyt.overall", "skyt.prompts", "skyt.cells", "skyt.tests")),
    (
        "task_metrics",
        ("robustness.score", "robustness.auc", "robustness.by_type", "clean_regression", "overhead"),
    ),
    (
        "stability_metrics",
        ("stability.logit_sensitivity", "stability.amplification_map", "stability.settings"),
    ),
    ("joint_metrics", ("joint.arms",)),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache_run(joint_run(tmp_path_factory.mktemp("whole") / "run"), into=True)


@given(data=st.data())
def test_metrics_of_any_shape_make_a_page_and_a_summary(whole: Path, data: st.DataObject) -> None:
    name, keys = data.draw(st.sampled_from(KEYS))
    path = whole / "metrics" / f"{name}.json"
    original = path.read_text()
    record = json.loads(original)
    key = data.draw(st.sampled_from(keys))
    rows = record["metrics"].get(key)
    strange = data.draw(JSON)
    if isinstance(rows, list) and rows and isinstance(rows[0], dict) and data.draw(st.booleans()):
        rows[0][data.draw(st.sampled_from(sorted(rows[0])))] = strange
    else:
        record["metrics"][key] = strange
    try:
        path.write_text(json.dumps(record))
        report = build(whole, samples=False)
        inert_json(report.data)
        files = RunFiles(whole)
        inert_json([key_figures(files), sparkline(files)])
    finally:
        path.write_text(original)
