"""Files that come with the program are found from any folder, and the user's own win."""

from __future__ import annotations

from pathlib import Path

import pytest

from homeostat.core import resources
from homeostat.core.errors import UserError


def test_files_and_folders_that_come_along_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resources.find("smoke", "configs").name == "smoke.yaml"
    assert resources.find("configs/smoke.yaml").is_file()
    assert (resources.find("contracts/easy") / "is_even.yaml").is_file()
    (tmp_path / "smoke").write_text("seed: 1")
    assert resources.find("smoke", "configs") == Path("smoke")


def test_a_folder_is_not_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no such file: configs"):
        resources.find("configs", "configs")
