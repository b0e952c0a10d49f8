"""`homeostat cache calibrate` and `homeostat cache check`, on a tiny model in a folder of its own."""

from __future__ import annotations

import json
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


def test_audit_names_and_heals_numbers_that_fingerprints_vouch_for(folder: Path, tmp_path: Path) -> None:
    """The cache of another text, saved with right fingerprints under these tokens."""
    own, other = tmp_path / "own", tmp_path / "other"
    run = CliRunner().invoke
    for where, words in ((own, WORDS * 5), (other, WORDS[::-1] * 5)):
        (tmp_path / "prompt.txt").write_text(" ".join(words))
        made = run(app, ["check", str(where), "--text", str(tmp_path / "prompt.txt"), "--model", str(folder)])
        assert made.exit_code == 0
    options = [
        "--model",
        str(folder),
        "--figure",
        str(tmp_path / "a.png"),
        "--json",
        str(tmp_path / "a.json"),
    ]
    assert run(app, ["audit", str(own), *options]).exit_code == 0
    mixed = load_file(own / "cache.safetensors")
    foreign = load_file(other / "cache.safetensors")
    for name, x in mixed.items():
        x[:, :, 32:48] = foreign[name][:, :, 32:48]
    file = tmp_path / "mixed.safetensors"
    save_file(mixed, file)
    alone = run(app, ["audit", str(file), *options])
    assert isinstance(alone.exception, UserError) and "--tokens" in str(alone.exception)
    ids = load_file(own / "fingerprints.safetensors")["ids"].tolist()
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    found = run(app, ["audit", str(file), "--tokens", str(tmp_path / "ids.json"), *options])
    assert found.exit_code == 1 and "positions 32–47: layers 0–2" in found.output
    assert [x["first"] for x in json.loads((tmp_path / "a.json").read_text())["findings"]] == [32]
    assert (tmp_path / "a.png").stat().st_size
    healed = run(app, ["audit", str(other), "--tokens", str(tmp_path / "ids.json"), "--heal", *options])
    assert healed.exit_code == 0, healed.output
    assert run(app, ["check", str(other)]).exit_code == 0
    for name, x in load_file(other / "cache.safetensors").items():
        assert torch.allclose(x, load_file(own / "cache.safetensors")[name], atol=1e-4)


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
