"""What the tests with real engines share: small models, so that an engine's start is most of the time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cachemedicpp.engines.campaign.run import model_folder
from cachemedicpp.engines.environment import engine_python, settings
from homeostat.core.errors import UserError

Scenario = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of the engine's environment."""
    if not os.environ.get("HOMEOSTAT_TEST_ENGINES"):
        pytest.skip("runs by `make test-engines`")
    try:
        return engine_python()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two random models of four layers with the default model's tokens: alike but for their weights."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer, made = AutoTokenizer.from_pretrained(model_folder("smollm2-135m")), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=1024,
            initializer_range=0.3,  # large, so that what stands far back still changes the next token
            tie_word_embeddings=True,
        )
        made.append(tmp_path_factory.mktemp("model"))
        LlamaForCausalLM(config).save_pretrained(made[-1])
        tokenizer.save_pretrained(made[-1])
    return made


@pytest.fixture(scope="session")
def environment(python: Path, models: list[Path]) -> dict[str, str]:
    names = {"HOMEOSTAT_TEST_MODEL": str(models[0]), "HOMEOSTAT_TEST_OTHER": str(models[1])}
    return {**os.environ, **settings(), **names}


@pytest.fixture
def scenario(python: Path, environment: dict[str, str], tmp_path: Path) -> Scenario:
    """Run one scenario in the engine's environment."""

    def run(name: str, script: str = "scenarios.py", before: Sequence[str] = ()) -> dict[str, Any]:
        done = subprocess.run(
            [*before, str(python), str(Path(__file__).with_name(script)), name, str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        assert lines, done.stderr[-3000:]
        found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
        return found

    return run
