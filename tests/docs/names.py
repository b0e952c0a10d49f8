"""What an example may take as given by name: `<!-- test: given model, cache -->`. From the tiny model."""

from __future__ import annotations

from functools import cache as once
from typing import Any

TEXT = (
    "The harbour master kept two ledgers, one for ships that came and one for ships that were expected. " * 4
)
GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"


def generate(prompt: str) -> str:
    """A language model, as far as `skyt.wrap` can tell."""
    return f"Here you are:\n```python\n{GCD}\n```"


@once
def _made() -> dict[str, Any]:
    import torch

    from cachemedicpp import CorruptionFamily, MedicConfig, sequence_keys
    from homeostat.core.models import load_model

    model, tokenizer = load_model("tiny")
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        cache = model(**inputs, use_cache=True).past_key_values
    config = MedicConfig()
    layers = config.repair.layers(model.config.num_hidden_layers)
    return {
        "model": model,
        "tokenizer": tokenizer,
        "texts": [f"{number}. {TEXT}" for number in range(40)],
        "inputs": inputs,
        "attention_mask": inputs["attention_mask"],
        "cache": cache,
        "family": CorruptionFamily.build(config.corruption, model, tokenizer, layers, seed=0),
        "keys": sequence_keys(inputs["input_ids"], inputs["attention_mask"]),
    }


NAMES = ("model", "tokenizer", "texts", "inputs", "attention_mask", "cache", "family", "keys", "generate")


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(name)
    return _made()[name]
