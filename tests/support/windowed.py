"""Small random models with sliding windows: Gemma 3 (with full attention between), Mistral (windows only)."""

from __future__ import annotations

from functools import cache
from typing import Any

WINDOW = 24
KINDS = ("gemma3", "mistral")


@cache
def windowed(kind: str) -> Any:
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig, MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "sliding_window": WINDOW,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if kind == "mistral":
        return MistralForCausalLM(MistralConfig(**sizes)).eval()
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    return Gemma3ForCausalLM(Gemma3TextConfig(**sizes, layer_types=layers)).eval()
