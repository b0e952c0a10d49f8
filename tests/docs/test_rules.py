"""The reader of the documentation itself: nothing is passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import exists, markdown
from tests.docs.markdown import blocks, inline_commands, loose_commands


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(markdown, "ROOT", tmp_path)
    return tmp_path / "page.md"


def test_a_block_has_its_rules_its_file_and_its_commands(page: Path) -> None:
    page.write_text(
        "text\n\n<!-- test: given a, b; exit 1 -->\n```bash\nhomeostat doctor  # checks\n\n"
        "homeostat code run gcd \\\n  -n 2\n```\n<!-- file: x.py -->\n```python\n1\n```\n```\nplain\n```\n"
    )
    first, second, third = blocks("page.md")
    assert first.rules == {"given": "a, b", "exit": "1"} and first.where == "page.md:4"
    assert [line.split() for line in first.commands()] == [
        ["homeostat", "doctor"],
        ["homeostat", "code", "run", "gcd", "-n", "2"],
    ]
    assert (second.file, second.text, second.rules) == ("x.py", "1\n", {})
    assert third.language == "" and third.rules == {} and third.file is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<!-- test: skip -->\n```bash\nls\n```\n", "unknown rule 'skip'"),
        ("<!-- test: help -->\nwords\n```bash\nls\n```\n", "right above its block"),
        ("```bash\nls\n", "never ends"),
    ],
)
def test_a_rule_that_would_be_lost_is_an_error(page: Path, text: str, complaint: str) -> None:
    page.write_text(text)
    with pytest.raises(AssertionError, match=complaint):
        blocks("page.md")


def test_commands_outside_bash_blocks_are_seen(page: Path) -> None:
    page.write_text("Say `homeostat\nview` first.\n\n    homeostat doctor\n\n```\n$ homeostat doctor\n```\n")
    assert inline_commands("page.md") == [(1, "homeostat view")]
    assert loose_commands("page.md") == [(4, "homeostat doctor")]
    assert blocks("page.md")[0].names_commands


@pytest.mark.parametrize(
    "command",
    [
        "homeostat code rnu gcd",
        "homeostat code run gcd --samples 3",
        "python -m benchmarks.nothing",
        "python -m benchmarks.repair_figure RUN --operator op",
        "make everything",
        "pip install 'homeostat-llm[gpu]'",
        "rm -rf runs",
    ],
)
def test_a_command_that_does_not_exist_is_a_problem(command: str) -> None:
    assert exists.problem(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "homeostat code run gcd -n 3 …",
        "homeostat code keys add NAME [--contract gcd]…",
        "python -m benchmarks.<name>",
        "python -m cachemedicpp.sweep SWEEP.yaml --out DIR --engine ray",
        "make bench NAME=all",
        "pip install 'homeostat-llm[serve,ray]'",
    ],
)
def test_a_command_as_people_write_it_is_none(command: str) -> None:
    assert exists.problem(command) is None
