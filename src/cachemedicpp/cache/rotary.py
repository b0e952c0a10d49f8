"""Keys before and after rotary position embedding, by the model's own rotation.

Rotary models store keys already rotated by their position, which smears per-channel statistics over pairs
of channels. `Rotary` takes the rotation off and puts it back. Models with learned positions store plain keys:
for them both directions are the identity.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from homeostat.core.errors import UserError


class Rotary:
    """One model's rotary embedding: `unrotate` and `rotate` keys `[B, H_kv, T, d]` at positions `[B, T]`."""

    def __init__(self, model: Any) -> None:
        self._embedding, self._apply = _find(model)
        self._layer_types: list[str] | None = None
        if self._embedding is not None and _takes(self._embedding.forward, "layer_type"):
            self._layer_types = list(model.config.get_text_config().layer_types)

    @property
    def is_identity(self) -> bool:
        """True for learned (or no) position embeddings: keys are stored as they are."""
        return self._embedding is None

    def rotate(self, K: Tensor, positions: Tensor, layer: int = 0) -> Tensor:
        return self._turn(K, positions, layer, forward=True)

    def unrotate(self, K: Tensor, positions: Tensor, layer: int = 0) -> Tensor:
        return self._turn(K, positions, layer, forward=False)

    def _turn(self, K: Tensor, positions: Tensor, layer: int, forward: bool) -> Tensor:
        if self._embedding is None:
            return K
        typed = () if self._layer_types is None else (self._layer_types[layer],)
        with torch.no_grad():
            # cos, sin: [B, T, d_rot], computed in float32 whatever the keys' type
            cos, sin = self._embedding(K.float(), positions, *typed)
            scale = 1.0 if forward else float((cos.square() + sin.square()).flatten()[0])
        sin = sin if forward else -sin
        width = cos.shape[-1]
        turned = self._apply(K[..., :width].float(), cos, sin) / scale
        return torch.cat((turned.to(K.dtype), K[..., width:]), dim=-1)


def _find(model: Any) -> tuple[nn.Module | None, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """The model's rotary embedding and its way of applying cos and sin (halves or interleaved pairs)."""
    inner = model.get_decoder() if hasattr(model, "get_decoder") else model.base_model
    embedding = getattr(inner, "rotary_emb", None)
    if embedding is None:
        config = model.config.get_text_config()
        if getattr(config, "rope_parameters", None) or getattr(config, "rotary_dim", None):
            raise UserError(
                f"model type {config.model_type!r} rotates its keys but keeps the rotation where it cannot "
                "be found (no `rotary_emb` on its decoder): its keys cannot be un-rotated"
            )
        return None, lambda K, cos, sin: K
    both = getattr(sys.modules[type(inner).__module__], "apply_rotary_pos_emb", None)
    if both is None:
        raise UserError(f"{type(inner).__module__} has no apply_rotary_pos_emb: keys cannot be un-rotated")
    if _takes(both, "q"):
        return embedding, lambda K, cos, sin: both(K, K, cos, sin)[1]
    return embedding, lambda K, cos, sin: both(K, cos, sin, unsqueeze_dim=1)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters
