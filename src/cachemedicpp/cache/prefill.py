"""Running a model over tokens for what it stores of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState


@torch.no_grad()
def prefill(model: Any, ids: Tensor | Sequence[int]) -> KVState:
    """The clean state after tokens: of one sequence `[T]`, or of a batch without padding `[B, T]`."""
    rows = torch.as_tensor(ids, device=model.device)
    rows = rows.unsqueeze(0) if rows.dim() == 1 else rows
    return KVState(model(input_ids=rows, use_cache=True, logits_to_keep=1).past_key_values)


def most_positions(model: Any) -> int | None:
    """The longest sequence a model takes; None where it says nothing."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)
