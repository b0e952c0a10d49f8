"""Fingerprints of stored keys and values: integers that change when any bit does.

A vector's bits, read as integers, are weighted by odd numbers that depend on head, place in the block and
channel, and summed modulo 2³². An odd weight times a changed element can never be 0 modulo 2³², so a change
to one element, down to a single bit, is always found; any other change slips through with a chance of 2⁻³².
Sums are additive over positions: a block that grows is fingerprinted by its new positions only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from homeostat.errors import UserError

_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
_SEED = 0x5EED


def weights(heads: int, head_dim: int, block: int, device: torch.device) -> Tensor:
    """Odd weights `[H, block, d]`, always the same."""
    generator = torch.Generator().manual_seed(_SEED)
    drawn = torch.randint(-(2**31), 2**31, (heads, block, head_dim), generator=generator, dtype=torch.int64)
    return (drawn | 1).to(torch.int32).to(device)


def digest(x: Tensor, weight: Tensor) -> Tensor:
    """The share of each position of `x` `[B, H, T, d]` in its block's fingerprint: `[B, T]`, modulo 2³²."""
    if x.dtype not in _BITS:
        raise UserError(f"a cache of {x.dtype} cannot be fingerprinted: use float32, bfloat16 or float16")
    bits = x.view(_BITS[x.dtype])
    if bits.dtype != torch.int32:
        bits = bits.to(torch.int32)
    return (bits * weight).sum((1, 3), dtype=torch.int32)


def add(sums: Tensor, shares: Tensor, start: int, block: int) -> Tensor:
    """Block sums `[B, n]` with the shares `[B, T]` of positions from `start` on added; grows as needed."""
    end = start + shares.shape[1]
    count = -(-end // block)
    grown = torch.zeros(shares.shape[0], count, dtype=torch.int32, device=shares.device)
    grown[:, : sums.shape[1]] = sums
    where = torch.arange(start, end, device=shares.device) // block
    return grown.index_add_(1, where, shares)
