"""What a block may take as given by path: `<!-- test: given runs/gcd -->` puts it into the page's folder.

Each is the real thing, small: a model with random weights and the default tokenizer, runs made by the program
itself, and configurations that stand in for those of the same name (a user's file wins).
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.docs.markdown import ROOT
from tests.docs.names import GCD, TEXT

Run = Callable[[list[str], Path], None]  # a command, run in a folder; raises if it fails

_SMALL: dict[str, Any] = {
    "model": {"name": "tiny"},
    "repair": {"protect_layers": "mid:2", "rank": 2},
    "train": {"steps": 2, "batch_size": 2, "prefix_len": 40, "continuation_len": 8, "heldout_sequences": 2},
    "data": {
        "use_offline": True,
        "wikitext2": {"num_sequences": 2, "score_len": 4},
        "sst2": {"num_examples": 2},
        "long_context": {"num_examples": 2, "context_len": 96, "max_new_tokens": 3},
    },
    "eval": {
        "max_seq_len": 48,
        "corruption_eval": {"eps": [0.0, 0.3], "types": ["gaussian", "bitflipish_sparse"]},
        "measure_overhead": False,
        "overhead_context": 48,
        "overhead_tokens": 2,
        "overhead_repeats": 1,
        "bootstrap": 100,
        "calibration_windows": 16,
        "calibration_len": 32,
    },
    "stability": {
        "enabled": False,
        "num_prompts": 2,
        "prompt_len": 48,
        "num_directions": 2,
        "delta_norms": [0.0, 1.0],
    },
}
_EVERYTHING = ["--set", "stability.enabled=true", "--set", "eval.measure_overhead=true"]
_SMALL_JOINT = {
    "model": {"name": "tiny"},
    "contracts": ["is_even"],
    "samples": 2,
    "max_new_tokens": 4,
    "epsilons": [0.5],
    "defences": ["none", "guard"],
    "calibration_windows": 16,
    "calibration_len": 32,
}
_PROGRAMS = [
    GCD,
    "def gcd(x, y):\n    while y != 0:\n        x, y = y, x % y\n    return x",
    "def gcd(a, b):\n    while b:\n        t = b\n        b = a % b\n        a = t\n    return a",
    GCD,
]


class Givens:
    """Makes each thing once and copies it to whoever asks."""

    def __init__(self, base: Path, run: Run) -> None:
        self._base, self._run = base, run
        self._makers: dict[str, Callable[[Path], None]] = {
            **dict.fromkeys(("tiny", "my-model"), tiny_model),
            "generations.jsonl": lambda path: path.write_text(generations()),
            "generations.jsonl.gz": lambda path: path.write_bytes(gzip.compress(generations().encode())),
            "canons.json": lambda path: path.write_text(
                json.dumps([{"contract_id": "gcd", "canonical_code": GCD}])
            ),
            "prompt.txt": lambda path: path.write_text(TEXT),
            "op": self._operator,
            "runs/gcd": self._code_run,
            "runs/smoke": self._cache_run,
            **dict.fromkeys(("smoke", "cpu", "distil", "configs/smoke.yaml", "configs/cpu.yaml"), _small_run),
            **dict.fromkeys(("joint", "joint-small", "configs/joint.yaml"), _small_joint),
        }

    def place(self, name: str, folder: Path) -> None:
        assert name in self._makers, f"nothing is given under the name {name!r}: see tests/docs/givens.py"
        made, target = self._base / name, folder / name
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            self._makers[name](made)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if made.is_dir():
            shutil.copytree(made, target)
        else:
            shutil.copy(made, target)

    def _operator(self, path: Path) -> None:
        self.place("tiny", self._base)
        words = ["homeostat", "cache", "calibrate", "tiny", "--text", "offline", "--out", str(path)]
        self._run([*words, "--windows", "16", "--length", "32"], self._base)

    def _code_run(self, path: Path) -> None:
        self.place("generations.jsonl", self._base)
        replay = ["homeostat", "code", "replay", "generations.jsonl", "--out", str(path), "--workers", "1"]
        self._run(replay, self._base)

    def _cache_run(self, path: Path) -> None:
        for name in ("tiny", "smoke"):
            self.place(name, self._base)
        self._run(["homeostat", "cache", "run", "smoke", "--out", str(path), *_EVERYTHING], self._base)


def _small_run(path: Path) -> None:
    path.write_text(json.dumps({"base": str(ROOT / "configs" / "smoke.yaml"), **_SMALL}))  # JSON is YAML


def _small_joint(path: Path) -> None:
    path.write_text(json.dumps(_SMALL_JOINT))


def generations() -> str:
    rows = [
        {
            "contract_id": "gcd",
            "model": "m",
            "temperature": 0.7,
            "sample": n,
            "raw_output": f"```python\n{code}\n```",
        }
        for n, code in enumerate(_PROGRAMS)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def tiny_model(path: Path) -> None:
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from homeostat.core.models import DEFAULT_MODEL, known, located

    tokenizer = AutoTokenizer.from_pretrained(located(known(DEFAULT_MODEL)))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
