"""Fingerprints of stored keys and values: integers that change when any bit does.

The stored bits are read as 64-bit words `v` (two or four elements each), and a block's fingerprint is `Σ
v·a + (v >> 32)·b` modulo 2⁶⁴, with random odd `a`, `b` for every head, place in the block and word. The
lower half of a word then counts with weight `a`, the upper with `2³² a + b`: both odd, and an odd number
times a non-zero change is never 0. So a change to one element, down to one bit, is always found, and
changes to several cancel with a chance of about 2⁻³². (With `v·a` alone every flipped top bit would add
2⁶³, two of them nothing.) Sums are additive over positions: a block that grows needs its new positions
only.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from homeostat.core.errors import UserError

try:
    import numpy as np
except ImportError:  # torch works without it, and so does this module
    np = None  # type: ignore[assignment]

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_SEED = 0x5EED


class Weights(NamedTuple):
    """Odd numbers `[H, n, words]` for `n` positions."""

    a: Tensor
    b: Tensor

    def at(self, positions: Tensor) -> Weights:
        """The weights of these places in a block."""
        return Weights(self.a[:, positions], self.b[:, positions])


def weights(x: Tensor, block: int) -> Weights:
    """The weights of a block of tensors like `x` `[B, H, T, d]`: always the same numbers."""
    if x.dtype not in _DTYPES:
        raise UserError(f"a cache of {x.dtype} cannot be fingerprinted: use float32, bfloat16 or float16")
    words = x.shape[-1] * x.element_size() // 8
    if words * 8 != x.shape[-1] * x.element_size():
        raise UserError(
            f"a head size of {x.shape[-1]} does not fill 64-bit words: it cannot be fingerprinted"
        )
    generator = torch.Generator().manual_seed(_SEED)
    halves = torch.randint(0, 2**32, (4, x.shape[1], block, words), generator=generator, dtype=torch.int64)
    a, b = (halves[:2] << 32) | halves[2:] | 1
    return Weights(a.to(x.device), b.to(x.device))


def digest(x: Tensor, weight: Weights) -> Tensor:
    """The share of each position of `x` `[B, H, T, d]` in its block's fingerprint: `[B, T]`."""
    v = x.detach().contiguous().view(torch.int64)
    if v.device.type != "cpu" or np is None:
        return (v * weight.a + (v >> 32) * weight.b).sum((1, 3))
    words, sum_over = v.numpy(), "bhtw,htw->bt"  # the same sum without temporaries: half the time
    low = np.einsum(sum_over, words, weight.a.numpy())
    return torch.from_numpy(low + np.einsum(sum_over, words >> 32, weight.b.numpy()))
