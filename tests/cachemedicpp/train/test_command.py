"""`homeostat cache train`: bad input is one line and exit code 2, and nothing half-written is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cachemedicpp.cli import app
from homeostat.core.entry import run


def command(monkeypatch: pytest.MonkeyPatch, model: Any, tokenizer: Any, out: Path, *overrides: str) -> int:
    from homeostat.core.models import ModelConfig

    monkeypatch.setattr(ModelConfig, "load", lambda self: (model, tokenizer))
    sets = [part for override in overrides for part in ("--set", override)]
    small = ["--set", "data.use_offline=true", "--set", "train.steps=1", "--set", "train.heldout_sequences=0"]
    with pytest.raises(SystemExit) as stop:
        run(app, ["train", "smoke", "--out", str(out), *small, *sets])
    return int(str(stop.value.code))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("repair.protect_layers=[2, 3]", "the model has 3 layers"),
        ("repair.rank=17", "above the model's head dimension 16"),
        ("corruption.axes={time_mode: window, window: [50, 200]}", "window = [50, 200]"),
        ("corruption.params.quant_bits=1", "quant_bits = 1"),
        ("train.prefix_len=20", "N_recent = 32"),
        ("repair.family=none", "'none' is not trained"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path,
    tiny_llama: Any, byte_tokenizer: Any, override: str, message: str,
) -> None:  # fmt: skip
    every = "corruption.mixture={contiguous_overwrite: 1}"
    block = "repair.protect_layers=mid:2"
    sets = (every, "train.clean_batch_prob=0", block, override)
    assert command(monkeypatch, tiny_llama, byte_tokenizer, tmp_path / "run", *sets) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0], errors
    assert not (tmp_path / "run" / "operator").exists()


def test_an_encoder_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, byte_tokenizer: Any
) -> None:
    from transformers import BertConfig, BertLMHeadModel

    config = BertConfig(
        vocab_size=256, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    assert command(monkeypatch, BertLMHeadModel(config), byte_tokenizer, tmp_path / "run") == 2
    assert "encoder-only" in capfd.readouterr().err


def test_python_m_cachemedicpp_train_is_the_same_command(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "cachemedicpp.train", "no-such-config", "--out", str(tmp_path / "run")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 2 and found.stderr.startswith("error: no such file: no-such-config")
    assert "Traceback" not in found.stderr
