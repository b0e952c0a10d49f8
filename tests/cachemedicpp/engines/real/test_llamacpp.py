"""Slot files of a real llama.cpp: whatever is done to them, the answer behind the guard is the cold one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_damaged_and_foreign_slots_are_refused_and_the_prompt_is_evaluated_anew(python: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine_slots", "--prompts", "1", "--tokens", "8"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout.partition("RESULT ")[2].splitlines()[0])
    assert rows.pop("none") == {"bare": {"right": 1}, "guarded": {"right": 1}}, "nothing was restored"
    assert len(rows) >= 12
    assert all(row["guarded"] == {"right, refused": 1} for row in rows.values())
    assert sum("wrong" in row["bare"] or "died" in row["bare"] for row in rows.values()) >= 4
