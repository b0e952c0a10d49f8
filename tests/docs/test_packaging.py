"""What is published: links that work elsewhere, one version, and an action whose steps run as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatch_build import description
from tests.docs.givens import generations
from tests.docs.markdown import ROOT, blocks, pages

from homeostat import __version__

RELATIVE = re.compile(r"\]\((?!https?://|#)")


def _readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_description_has_no_relative_link_with_or_without_an_address() -> None:
    assert RELATIVE.search(_readme()), "the README links to pages of the repository"
    plain = description(_readme(), "", "1.2.3")
    assert not RELATIVE.search(plain) and "<!-- test:" not in plain
    linked = description(_readme(), "https://example.org/o/homeostat/", "1.2.3")
    assert not RELATIVE.search(linked)
    assert "(https://example.org/o/homeostat/blob/v1.2.3/docs/repair.md)" in linked


def test_pictures_become_absolute_or_are_left_out() -> None:
    page = "a ![curve](docs/figures/x.png) [b](docs/b.md) [c](https://example.org)"
    assert description(page, "", "1") == "a  b [c](https://example.org)"
    assert "![curve](https://h/r/raw/v1/docs/figures/x.png)" in description(page, "https://h/r", "1")


@pytest.mark.parametrize("page", pages())
def test_no_page_installs_the_stranger_that_has_our_name_on_the_index(page: str) -> None:
    commands = [line for block in blocks(page) for line in block.text.splitlines() if "pip install" in line]
    strangers = [
        line for line in commands if re.search(r"pip install\b[^#]*\s['\"]?homeostat(?!-llm)\b", line)
    ]
    assert strangers == [], "install from a checkout: pip install '.[extra]'"


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/homeostat/__init__.py"
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+) \(\d{4}-\d{2}-\d{2}\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda p: p.name)
def test_workflows_are_valid_and_call_what_exists(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = [word for step in steps for word in re.findall(r"\bmake (\w+)", step.get("run", ""))]
    assert set(called) <= set(targets)


def _run(step: dict[str, Any], given: dict[str, str], folder: Path) -> int:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for name, value in step["env"].items():
        found = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)
        assert found, f"{name}: {value}"
        environment[name] = given[found[1]]
    command = [shutil.which("bash") or "bash", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=environment, timeout=240, check=False).returncode


def test_the_steps_of_the_action_measure_report_and_gate(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = {step["name"]: step for step in action["runs"]["steps"]}
    (tmp_path / "generations.jsonl").write_text(generations())
    given = {name: about.get("default", "") for name, about in action["inputs"].items()}
    given["generations"] = "generations.jsonl"
    assert [_run(steps[name], given, tmp_path) for name in ("Measure", "Report", "Gate")] == [0, 0, 0]
    assert (tmp_path / "runs/drift/report.html").exists() and (tmp_path / "canons/gcd.json").exists()
    assert "report=runs/drift/report.html" in (tmp_path / "github_output").read_text()
    assert "R_anchor" in (tmp_path / "github_step_summary").read_text()
    assert _run(steps["Gate"], {**given, "bounds": "--min-r-raw 1"}, tmp_path) == 1
