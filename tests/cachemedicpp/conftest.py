"""Small surroundings for the evaluation's tests: a byte tokenizer and a set-up around a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class ByteTokenizer:
    """One token per byte, for models with 256 tokens; no chat template and no BOS token."""

    chat_template = None
    pad_token_id = 0
    eos_token_id = 2

    def __call__(self, text: Any, **_: Any) -> dict[str, Any]:
        if isinstance(text, str):
            return {"input_ids": [max(byte, 3) for byte in text.encode("utf-8")]}
        return {"input_ids": [self(one)["input_ids"] for one in text]}

    def batch_decode(self, rows: Any, **_: Any) -> list[str]:
        return [bytes(t for t in row.tolist() if t > 2).decode("latin-1") for row in rows]


@pytest.fixture(scope="session")
def byte_tokenizer() -> ByteTokenizer:
    return ByteTokenizer()


SMALL: dict[str, Any] = {
    "seed": 3,
    "data": {
        "use_offline": True,
        "wikitext2": {"num_sequences": 3, "score_len": 8},
        "sst2": {"num_examples": 4},
        "long_context": {"num_examples": 2, "context_len": 256, "max_new_tokens": 9},
    },
    "corruption": {"axes": {"head_mode": "all", "N_recent": 8}},
    "repair": {"protect_layers": [1, 2], "rank": 4},
    "eval": {
        "max_seq_len": 72,
        "corruption_eval": {"eps": [0.1, 0.5]},
        "bootstrap": 100,
        "overhead_context": 64,
        "overhead_tokens": 2,
        "overhead_repeats": 1,
        "families": [],
    },
    "stability": {
        "num_prompts": 2,
        "prompt_len": 48,
        "num_directions": 2,
        "delta_norms": [0.0, 1.0, 4.0],
        "topk_logits": 50,
    },
}


@pytest.fixture
def small_config() -> Callable[..., Any]:
    """A configuration of the smallest size; keyword arguments replace whole values by dotted name."""

    def build(**changes: Any) -> Any:
        import copy

        from cachemedicpp.tasks.config import MedicConfig

        raw = copy.deepcopy(SMALL)
        for dotted, value in changes.items():
            section, *keys = raw, *dotted.split("__")
            for key in keys[:-1]:
                section = section.setdefault(key, {})
            section[keys[-1]] = value
        return MedicConfig.model_validate(raw)

    return build


@pytest.fixture
def small_setup(
    monkeypatch: pytest.MonkeyPatch, tiny_llama: Any, byte_tokenizer: Any, small_config: Callable[..., Any]
) -> Callable[..., Any]:
    """`prepared` on the tiny Llama, as it would run on a loaded model."""

    def build(**changes: Any) -> Any:
        from cachemedicpp.runs.pipeline import prepared
        from homeostat.core.models import ModelConfig

        monkeypatch.setattr(ModelConfig, "load", lambda self: (tiny_llama, byte_tokenizer))
        return prepared(small_config(**changes))

    return build


@pytest.fixture
def open_small(tmp_path: Path) -> Any:
    """Open a run directory for a configuration."""
    from homeostat.core.rundir import open_run

    def opened(config: Any, name: str = "run") -> Any:
        return open_run(tmp_path / name, command="test", config=config)

    return opened
