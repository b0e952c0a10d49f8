"""What a recomputed block must look like: five numbers per block that rounding hardly changes.

A recomputation equals what was stored up to rounding, so bits cannot be compared. `Σ x²` tells another size,
and four sums with random signs tell another content of the same size: wrong tokens, tokens in another order,
keys rotated for other positions. Padding is left out: under eager attention its vectors depend on what
follows.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

_SIGNS = 4
_SEED = 0x51615
_SIZE = {torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.02}  # of Σ x² in a block
_CONTENT = {torch.float32: 3e-3, torch.bfloat16: 0.15, torch.float16: 0.06}  # of √Σ x², for each signed sum
WIDTH = 1 + _SIGNS


def shares(x: Tensor, mask: Tensor, places: Tensor, block: int) -> Tensor:
    """What each position of `x` `[B, H, T, d]` adds to its block's sketch, `[B, T, WIDTH]`.

    `mask` `[B, T]` are the real tokens, `places` `[T]` where in its block each position is.
    """
    signed = _signs(x.shape[1], block, x.shape[3])[:, :, places.cpu()].to(x.device)
    real = mask.to(x.device)[:, None, :, None]
    seen = x.detach().float().masked_fill(~real, 0.0)
    squares = seen.square().sum((1, 3)).unsqueeze(-1)
    return torch.cat((squares, torch.einsum("bhtd,shtd->bts", seen, signed)), -1).double().cpu()


@cache
def _signs(heads: int, block: int, head_dim: int) -> Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    return 2.0 * torch.randint(0, 2, (_SIGNS, heads, block, head_dim), generator=generator) - 1.0


def alike(here: Tensor, there: Tensor, dtype: torch.dtype) -> bool:
    """Whether two sketches `[WIDTH]` are of the same numbers up to the rounding of `dtype`."""
    size = max(float(there[0]), 1e-6)
    apart = (here - there).abs()
    same_size = float(apart[0]) <= _SIZE[dtype] * size
    return same_size and float(apart[1:].max()) <= _CONTENT[dtype] * size**0.5
