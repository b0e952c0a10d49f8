"""Loading models: the default one without a network, conversion under a race, clear refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny_gguf import write_gguf

from homeostat.core.errors import UserError
from homeostat.core.models import ModelConfig, convert, load_model, model_identity

CONVERT = """
import sys
from pathlib import Path
from homeostat.core.models import converted
print(converted(Path(sys.argv[1]), "race"))
"""


@pytest.mark.model
def test_the_default_model_writes_english_and_knows_where_it_comes_from(
    default_model: tuple[Any, Any],
) -> None:
    model, tokenizer = default_model
    inputs = tokenizer("The capital of France is", return_tensors="pt")
    answer = tokenizer.decode(model.generate(**inputs, max_new_tokens=3, do_sample=False)[0])
    assert "Paris" in answer
    identity = model_identity(model)
    assert identity["id"] == "smollm2-135m" and len(str(identity["revision"])) == 64
    assert tokenizer.padding_side == "left" and tokenizer.pad_token is not None


def test_two_processes_converting_at_once_both_succeed_with_one_conversion(tmp_path: Path) -> None:
    environment = {**os.environ, "HOMEOSTAT_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CONVERT, str(write_gguf(tmp_path / "tiny.gguf"))]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=280) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sum("converting" in stderr for _, stderr in outputs) == 1
    folders = [path for path in (tmp_path / "models").iterdir() if path.is_dir()]
    assert folders == [Path(outputs[0][0].strip())]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gguf_file_becomes_a_model_with_its_weights_and_its_first_token(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("HOMEOSTAT_CACHE", str(tmp_path))
    gguf = write_gguf(tmp_path / "tiny.gguf")
    folder = convert.converted(gguf, "tiny", dtype=dtype)
    ours: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs: Any = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=gguf.name)
    for (name, here), (_, there) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert torch.equal(here, there.to(getattr(torch, dtype)).float()), name
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("ab")["input_ids"] == [1, 5]  # <bos> ab
    with pytest.raises(UserError, match="is not the file of tiny"):
        convert.converted(gguf, "tiny", digest="0" * 64)


def save_tiny(model: Any, folder: Path) -> Path:
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    model.save_pretrained(folder)
    inner = Tokenizer(WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="b").save_pretrained(folder)
    return folder


def test_a_local_directory_loads_with_the_configured_dtype_and_attention(
    tiny_llama: Any, tmp_path: Path
) -> None:
    import torch

    folder = save_tiny(tiny_llama, tmp_path / "tiny")
    config = ModelConfig(name=str(folder), dtype="bfloat16", attn_implementation="eager", device="cpu")
    model, tokenizer = config.load()
    assert model.dtype == torch.bfloat16
    assert model.config._attn_implementation == "eager"
    assert tokenizer.pad_token == tokenizer.eos_token


def test_a_damaged_conversion_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    manifest = {
        "source": "x",
        "files": {"model.safetensors": 7},
        "sha256": convert.sha256(folder / "model.safetensors"),
    }
    (folder / "conversion.json").write_text(json.dumps(manifest))
    assert convert.intact(folder)
    (folder / "model.safetensors").write_bytes(b"weightz")
    assert not convert.intact(folder)
    shutil.rmtree(folder)
    assert not convert.intact(folder)


@pytest.mark.parametrize("offline", ["0", "1"])
def test_an_unknown_model_without_a_hub_is_one_clear_line(offline: str) -> None:
    code = "from homeostat.core.models import load_model; load_model('no-such-org/no-such-model')"
    environment = {**os.environ, "HF_HUB_OFFLINE": offline, "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "UserError: cannot load model 'no-such-org/no-such-model'" in last
    assert ("HF_HUB_OFFLINE is set" in last) == (offline == "1")


@pytest.mark.parametrize(
    ("name", "message"), [("missing.gguf", "no such GGUF file"), (".", "has no config.json")]
)
def test_a_path_that_is_no_model_is_named(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        load_model(name)


@pytest.mark.parametrize("device", ["cuda", "quantum"])
def test_a_device_that_is_not_there_is_named(device: str) -> None:
    import torch

    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(UserError, match=f"model.device = '{device}'"):
        load_model(device=device)
