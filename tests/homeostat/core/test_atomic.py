"""A reader sees the old content or the new one, and nothing is left behind by a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core import atomic


def test_a_failure_while_writing_keeps_the_old_content_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    atomic.write_text(path, "old")
    with pytest.raises(RuntimeError), atomic.replacing(path) as aside:
        aside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]


def test_json_with_nan_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        atomic.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


@given(st.text(st.characters(codec=None)))  # lone surrogates too
def test_any_text_in_json_reads_back_as_it_was_from_strict_utf8(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        atomic.write_json(path, {"text": text})
        back = json.loads(path.read_text(encoding="utf-8"))["text"]
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert back == paired  # JSON has one way to write two halves and the character they make


def test_a_lone_surrogate_in_plain_text_is_written_as_its_escape(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "f.txt", "é \ud800 x")
    assert (tmp_path / "f.txt").read_text(encoding="utf-8") == "é \\ud800 x"


WRITE_PAST_THE_LIMIT = """
import resource, signal, sys
from pathlib import Path
from homeostat.core import atomic
from homeostat.core.errors import UserError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    atomic.write_text(Path(sys.argv[1]), "y" * 1000)
except UserError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_one_clear_line_and_the_old_content_stays(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    atomic.write_text(path, "old")
    command = [sys.executable, "-c", WRITE_PAST_THE_LIMIT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"cannot write {path}: File too large"
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]
