"""Where keys and values really lie in a block of vLLM's paged cache.

A backend may pack a block for its kernels: on CPU the shape says `[heads, positions, 2 × d]`, but keys are
stored transposed, so that neighbours in memory belong to different positions. Nothing documents this, so it
is measured: the backend's own writing function writes numbered keys and values into a scratch block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cachemedicpp.engines.blocks.paged import by_block
from homeostat.core.errors import UserError

_DIGIT = 128  # numbers below this are exact in every type


def probe(layer: Any, cache: Tensor, blocks: int, size: int) -> Tensor:
    """Places `[2, H, size, d]` in a flattened block of the keys and values of every head and position."""
    shape = [2 if n == blocks else n for n in cache.shape]
    heads, head_dim = layer.num_kv_heads, layer.head_size
    count = 2 * heads * size * head_dim
    numbers = torch.arange(1, count + 1).view(2, size, heads, head_dim)
    slots = torch.arange(size, device=cache.device)
    found = torch.zeros(count, dtype=torch.long)
    for power in range(4):
        digits = (numbers // _DIGIT**power % _DIGIT).to(cache.device, cache.dtype)
        scratch = torch.zeros(shape, dtype=cache.dtype, device=cache.device)
        layer.impl.do_kv_cache_update(layer, digits[0].contiguous(), digits[1].contiguous(), scratch, slots)
        seen = by_block(scratch, 2, size)[0].flatten().long().cpu()
        if seen.numel() != count:
            raise UserError(
                f"a block holds {seen.numel()} numbers, its keys and values are {count}: unknown layout"
            )
        found += seen * _DIGIT**power
    if sorted(found.tolist()) != list(range(1, count + 1)):
        raise UserError("the engine's cache does not keep each key and value once as it is: unknown layout")
    place = torch.empty(count, dtype=torch.long)
    place[found - 1] = torch.arange(count)
    return place.view(2, size, heads, head_dim).transpose(1, 2).contiguous()
