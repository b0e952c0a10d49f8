"""The map of the house in CONTRIBUTING.md: every path that answers a question exists."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _answers() -> list[tuple[str, list[str]]]:
    section = TEXT.partition("## The map of the house")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", section, re.MULTILINE)
    return [(question, re.findall(r"`([^`]+)`", answer)) for question, answer in rows]


def test_ten_questions_and_more_are_answered_by_paths_that_exist() -> None:
    answers = _answers()
    assert len(answers) >= 10
    for question, paths in answers:
        assert paths, question
        for path in paths:
            assert (ROOT / path).exists(), f"{question} {path} does not exist"


def test_what_is_named_after_a_folder_to_copy_from_exists() -> None:
    section = TEXT.partition("## Adding things")[2].partition("\n## ")[0]
    folders = re.findall(r"`((?:src|contracts)[^`]*)`", section)
    assert len(folders) >= 6
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []
