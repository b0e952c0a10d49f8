"""Fixtures every test may use: the real default model, two tiny architectures, and the development data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("HOMEOSTAT_KEPT", "off")  # tests judge and repair everything anew

settings.register_profile(
    "homeostat", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("homeostat")

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"


SLOW_FIXTURES = {"default_model", "browser", "postgres_url", "reader"}
SLOW_MARKS = ("model", "ray")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the real model, Ray, a browser, a database server or a page of commands is slow."""
    for item in items:
        needs: set[str] = set(getattr(item, "fixturenames", ()))
        marked = any(map(item.get_closest_marker, SLOW_MARKS))
        if marked or needs & SLOW_FIXTURES or "postgresql" in item.name:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _a_command_in_this_process_says_nothing_for_the_next_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command sends its lines to stdout for as long as its process lives."""
    from homeostat.core import progress

    monkeypatch.setattr(progress._display, "lines_on_stdout", False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data for development; tests that read it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the development data (../shared/data) is not here")
    return SHARED


@pytest.fixture(scope="session")
def _threads() -> Iterator[None]:
    """One torch thread per worker: two workers on two cores would otherwise fight over both."""
    import torch

    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)
    yield


@pytest.fixture(scope="session")
def default_model(_threads: None) -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct and its tokenizer, loaded once per worker. Treat it as read-only."""
    from homeostat.core.models import load_model

    return load_model()


@pytest.fixture(scope="session")
def tiny_llama(_threads: None) -> Any:
    """A random Llama with grouped KV heads and rotary positions: 3 layers, 4 query and 2 KV heads, d = 16."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tiny_gpt2(_threads: None) -> Any:
    """A random GPT-2 with learned positions: 3 layers, 4 heads, d = 16."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=256,
        n_embd=64,
        n_layer=3,
        n_head=4,
        n_positions=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config).eval()
