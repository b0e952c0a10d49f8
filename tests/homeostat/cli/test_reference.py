"""The reference pages are what the code says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from homeostat.cli.reference import pages

DOCS = Path(__file__).parents[3] / "docs"
MODULES = {
    path.stem: re.findall(r"^::: (\S+)$", path.read_text(), re.M) for path in DOCS.glob("reference/*.md")
}


def test_the_pages_are_up_to_date() -> None:
    stale = [name for name, text in pages().items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert stale == [], "write them again: python -m homeostat.cli.reference"


def test_every_command_has_its_place() -> None:
    for command in ("homeostat demo", "homeostat cache run", "homeostat code keys add"):
        assert f"### `{command}`" in pages()["reference/cli.md"]


@pytest.mark.parametrize("package", ["homeostat", "cachemedicpp", "skyt"])
def test_every_module_of_a_page_exists_and_says_what_it_is(package: str) -> None:
    assert package == "homeostat" or package in MODULES[package]
    assert all(import_module(name).__doc__ for name in MODULES[package])
