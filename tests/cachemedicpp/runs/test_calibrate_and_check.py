"""`homeostat cache calibrate` and `homeostat cache check`, on a tiny model in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from cachemedicpp import load_repair
from cachemedicpp.cli import app
from homeostat.core.errors import UserError

WORDS = [
    "the",
    "harbour",
    "held",
    "nine",
    "ships",
    "and",
    "a",
    "ledger",
    "of",
    "winds",
    "that",
    "nobody",
    "in",
    "town",
    "could",
    "read",
    "twice",
]


@pytest.fixture(scope="module")
def folder(tiny_llama: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama with a tokenizer of seventeen letters."""
    where = tmp_path_factory.mktemp("model")
    known = Tokenizer(
        models.WordLevel({w: i + 3 for i, w in enumerate(sorted(set(WORDS)))} | {"?": 0}, unk_token="?")
    )
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=known, unk_token="?", eos_token="?").save_pretrained(where)
    tiny_llama.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text("\n".join(" ".join(WORDS[(i * k) % 17] for k in range(40)) for i in range(1, 120)))
    return path


def test_calibrate_writes_an_operator_that_loads(folder: Path, story: Path, tmp_path: Path) -> None:
    options = ["--text", str(story), "--out", str(tmp_path / "op"), "--windows", "64", "--length", "64"]
    done = CliRunner().invoke(app, ["calibrate", str(folder), *options])
    assert done.exit_code == 0, done.output
    repair = load_repair(tmp_path / "op")
    assert repair.name == "G" and repair.layers == (0, 1, 2)
    missing = CliRunner().invoke(
        app, ["calibrate", str(folder), "--text", "nowhere.txt", "--out", str(tmp_path / "x")]
    )
    assert isinstance(missing.exception, UserError)
    assert not (tmp_path / "x").exists()


def test_check_saves_verifies_and_heals(folder: Path, tmp_path: Path) -> None:
    prompt, saved = tmp_path / "prompt.txt", tmp_path / "cache"
    prompt.write_text(" ".join(WORDS * 5))
    run = CliRunner().invoke
    assert run(app, ["check", str(saved), "--text", str(prompt), "--model", str(folder)]).exit_code == 0
    assert run(app, ["check", str(saved)]).exit_code == 0
    file = saved / "cache.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-5] ^= 1
    file.write_bytes(raw)
    found = run(app, ["check", str(saved)])
    assert found.exit_code == 1 and "1 damaged blocks" in found.output
    assert run(app, ["check", str(saved), "--heal", "--model", str(folder)]).exit_code == 0
    assert run(app, ["check", str(saved)]).exit_code == 0


def test_check_refuses_a_cache_that_is_not_the_fingerprinted_one(folder: Path, tmp_path: Path) -> None:
    """Layers missing, positions missing: neither sound nor damaged, and never a traceback."""
    prompt, saved = tmp_path / "prompt.txt", tmp_path / "cache"
    prompt.write_text(" ".join(WORDS * 5))
    run = CliRunner().invoke
    assert run(app, ["check", str(saved), "--text", str(prompt), "--model", str(folder)]).exit_code == 0
    whole = load_file(saved / "cache.safetensors")
    for wrong in (
        {name: x for name, x in whole.items() if name.endswith(".0")},
        {name: x[:, :, :40].contiguous() for name, x in whole.items()},
        {name: x[:, :, :40].contiguous() if name == "K.1" else x for name, x in whole.items()},
        {name: torch.cat((x, x), 2) for name, x in whole.items()},
        {},
    ):
        save_file(wrong, saved / "cache.safetensors")
        done = run(app, ["check", str(saved)])
        assert isinstance(done.exception, UserError), done.output


def test_unreadable_text_and_windows_beyond_the_model_are_told_in_a_line(
    folder: Path, story: Path, tmp_path: Path
) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("café".encode("latin-1"))
    run = CliRunner().invoke
    for command in (
        ["check", str(tmp_path / "c"), "--text", str(latin), "--model", str(folder)],
        ["calibrate", str(folder), "--text", str(story), "--length", "4000", "--out", str(tmp_path / "op")],
    ):
        assert isinstance(run(app, command).exception, UserError)
    assert not (tmp_path / "c").exists() and not (tmp_path / "op").exists()
