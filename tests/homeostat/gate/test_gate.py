"""Gates: exit 0 within bounds, 1 on drift, 2 on a mistake, and summaries that CI systems read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.example_runs import CANON, WRONG, cache_run, code_run, sample

from homeostat.core.errors import UserError
from homeostat.gate import Check, judge
from homeostat.gate.cache import cache_checks
from homeostat.gate.checks import junit_xml, markdown_summary
from homeostat.gate.code import code_checks


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R_anchor 0.75, of which 0.5 as generated; mu_post 0.0625."""
    return code_run(tmp_path_factory.mktemp("gate") / "run")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache_run(tmp_path_factory.mktemp("gate") / "run")


def read_xml(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 (our own)


def gate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "homeostat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_the_command_exits_0_within_bounds_and_1_on_drift_and_writes_both_summaries(
    code: Path, tmp_path: Path
) -> None:
    files = ["--junit", str(tmp_path / "j.xml"), "--markdown", str(tmp_path / "m.md")]
    passed = gate("code", "gate", str(code), "--min-r-anchor", "0.75", "--max-mu-post", "0.0625", *files)
    assert passed.returncode == 0 and "all 2 checks passed" in passed.stdout
    assert read_xml((tmp_path / "j.xml").read_text()).get("failures") == "0"
    failed = gate("code", "gate", str(code), "--min-r-anchor", "0.751", "--max-mu-post", "0.0625", *files)
    assert failed.returncode == 1 and "1 of 2 checks failed" in failed.stdout
    suite = read_xml((tmp_path / "j.xml").read_text())
    assert suite.get("failures") == "1" and len(suite.findall("testcase/failure")) == 1
    assert "❌ | all prompts | R_anchor | 0.7500 | ≥ 0.751" in (tmp_path / "m.md").read_text()


def test_a_mistake_is_one_line_and_exit_2(code: Path, tmp_path: Path) -> None:
    for arguments in (
        ["code", "gate", str(code)],
        ["code", "gate", str(code), "--min-r-anchor", "90"],
        ["code", "gate", str(tmp_path), "--min-r-anchor", "0.9"],
    ):
        done = gate(*arguments)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_r_anchor_counts_up_to_the_evidence_asked_for(code: Path) -> None:
    for evidence, share in (("identical", 0.5), ("rewritten", 0.75), ("equivalent", 0.75)):
        (check,) = code_checks(code, {"min_r_anchor": 0.6}, evidence=evidence)
        assert check.value == share and check.passed == (share >= 0.6)
    with pytest.raises(UserError, match="did you mean 'identical'"):
        code_checks(code, {"min_r_anchor": 0.6}, evidence="identicall")


def test_per_prompt_checks_find_the_prompt_that_drifted(tmp_path: Path) -> None:
    samples = [sample(i, "good", CANON) for i in range(9)] + [sample(9, "bad", WRONG)]
    run = code_run(tmp_path / "run", samples)
    assert all(c.passed for c in code_checks(run, {"min_r_anchor": 0.9}))
    failed = [c.subject for c in code_checks(run, {"min_r_anchor": 0.9}, per_prompt=True) if not c.passed]
    assert failed == ["bad"]


def test_confident_judges_by_the_unfavourable_end_of_the_interval(code: Path) -> None:
    anchor, mu = code_checks(code, {"min_r_anchor": 0.7, "max_mu_post": 0.1}, confident=True)
    assert anchor.value < 0.75 and not anchor.passed and "low end" in anchor.sentence
    assert mu.value > 0.0625 and not mu.passed
    with pytest.raises(UserError, match="no interval for R_raw"):
        code_checks(code, {"min_r_raw": 0.1}, confident=True)


def test_drift_against_a_baseline_is_found(code: Path, tmp_path: Path) -> None:
    worse = code_run(tmp_path / "worse", [sample(i, "gcd", CANON if i % 2 else WRONG) for i in range(8)])
    within = code_checks(worse, {}, max_drop=0.26, baseline=code)
    beyond = code_checks(worse, {}, max_drop=0.2, baseline=code)
    assert all(c.passed for c in within) and not all(c.passed for c in beyond)
    with pytest.raises(UserError, match="belong together"):
        code_checks(worse, {}, max_drop=0.2)


def test_figures_of_another_canon_are_stale_and_other_versions_do_not_compare(
    code: Path, tmp_path: Path
) -> None:
    def measured(run: Path, **settings: object) -> None:
        path = run / "metrics" / "repeatability_metrics.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "settings": {**record["settings"], **settings}}))

    other = code_run(tmp_path / "other", [sample(i, "gcd", CANON) for i in range(4)])
    for run, version in ((code, "7"), (other, "6")):
        measured(run, versions={"gcd": {"oracle_version": version}})
    with pytest.raises(UserError, match=r"versions of 'gcd': 7 here, 6 in the baseline.*--across-versions"):
        code_checks(code, {}, max_drop=1.0, baseline=other)
    assert code_checks(code, {}, max_drop=1.0, baseline=other, across_versions=True)
    measured(code, canons={"gcd": "0" * 64})
    with pytest.raises(UserError, match="the canon of 'gcd' was changed after its figures were measured"):
        code_checks(code, {"min_r_anchor": 0.1})


def test_a_run_that_is_not_complete_has_no_verdict(tmp_path: Path) -> None:
    run = cache_run(tmp_path / "run", finish=False)
    with pytest.raises(UserError, match="interrupted"):
        cache_checks(run, {"min_auc": 0.1})


def test_the_cache_gate_judges_the_runs_own_repair_by_its_recorded_figures(cache: Path) -> None:
    bounds = {
        "min_auc": 0.01,
        "min_auc_gain": 0.0,
        "min_gain_over_heuristic": 0.0,
        "max_clean_regression": 0.001,
        "max_sensitivity_ratio": 0.4,
        "min_throughput": 0.9,
    }
    checks = {c.metric: c for c in cache_checks(cache, bounds)}
    assert len(checks) == 6 and {c.subject for c in checks.values()} == {"G"}
    assert checks["sensitivity ratio at delta 1"].value == pytest.approx(0.4)
    assert checks["throughput relative to no defence"].value == pytest.approx(0.9)
    assert all(c.passed for c in checks.values())
    (worse,) = cache_checks(cache, {"min_auc_gain": 0.0}, defence="reset_clear")
    assert worse.value < 0 and not worse.passed


def test_the_cache_gate_names_an_unknown_defence_and_the_nearest(cache: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'guard'"):
        cache_checks(cache, {"min_auc": 0.1}, defence="gard")


def test_the_cache_command_exits_0_and_1(cache: Path) -> None:
    assert gate("cache", "gate", str(cache), "--min-auc", "0.01").returncode == 0
    assert gate("cache", "gate", str(cache), "--min-auc", "0.9").returncode == 1


def test_a_figure_that_is_no_number_never_passes() -> None:
    nan = float("nan")
    assert not Check("s", "m", nan, "min", 0.0).passed and not Check("s", "m", nan, "max", 1.0).passed


@given(st.text(st.characters(codec=None)))
def test_any_name_gives_well_formed_xml_and_one_markdown_row(name: str) -> None:
    checks = [Check(name, "m", 0.5, "min", 0.9)]
    suite = read_xml(junit_xml(Path("run"), checks))
    assert len(suite.findall("testcase/failure")) == 1
    rows = markdown_summary(Path("run"), checks).splitlines()
    assert len(rows) == 7 and "<" not in rows[-1]


def test_nothing_to_check_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least one bound"):
        judge(tmp_path, [], None, None)
