"""Which weights a model has: a fingerprint that does not depend on where they were loaded from."""

from __future__ import annotations

import hashlib
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_ROWS = 1 << 22  # values that are hashed at a time
_known: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()


def model_identity(model: PreTrainedModel) -> dict[str, str | None]:
    """What the weights were asked for as: the requested name, and the revision or the file's hash."""
    return {"id": model.config.name_or_path or None, "revision": getattr(model.config, "_commit_hash", None)}


def fingerprint(model: PreTrainedModel) -> str:
    """SHA-256 over the names, shapes and values of all weights, the values rounded to bfloat16.

    The same model from a folder, the hub or a GGUF file has one fingerprint, in float32 and in bfloat16. It
    takes about a second per billion bytes, once per model object and change of its weights.
    """
    weights = sorted(model.named_parameters())  # tied weights appear once
    state = tuple((name, weight.data_ptr(), weight._version) for name, weight in weights)
    if model in _known and _known[model][0] == state:
        return _known[model][1]
    digest = hashlib.sha256()
    for name, weight in weights:
        digest.update(f"{name} {tuple(weight.shape)}\n".encode())
        flat = weight.detach().reshape(-1)
        for start in range(0, len(flat), _ROWS):
            digest.update(_bytes(flat[start : start + _ROWS]))
    _known[model] = state, digest.hexdigest()
    return digest.hexdigest()


def _bytes(values: torch.Tensor) -> bytes:
    import torch

    if values.is_floating_point():
        values = values.to(torch.bfloat16)
    return values.cpu().contiguous().view(torch.uint8).numpy().tobytes()
