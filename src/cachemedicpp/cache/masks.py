"""What a query may read: transformers' attention masks, applied to scores."""

from __future__ import annotations

import torch
from torch import Tensor


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores `[B, H_kv, G, Q, T]` under transformers' mask `[B, 1 or H, Q, T]` (true or 0: may be read)."""
    Q, T = scores.shape[-2:]
    low = torch.finfo(scores.dtype).min
    if mask is None:
        if Q == 1:
            return scores
        causal = torch.ones(Q, T, dtype=torch.bool, device=scores.device).tril(T - Q)
        return scores.masked_fill(~causal, low)
    mask = mask[..., :T]
    grouped = mask.unsqueeze(2) if mask.shape[1] == 1 else mask.view(-1, *scores.shape[1:])
    return scores.masked_fill(~grouped, low) if mask.dtype == torch.bool else scores + grouped
